/**
 * Simulated machines: network namespaces on one bridge, which can be cut off from each other. Linux and root
 * only. A cut sends the two machines' packets to an unused hardware address, so that they are lost silently
 * until the heal; it needs only `ip`.
 */
import { spawnSync } from 'node:child_process'
import type { Test } from 'tap'

const NOBODY = '02:00:00:00:00:01'
/** Name of the bridge; Linux limits interface names to 15 characters. */
const LAN = `svc${process.pid}`

/** A small LAN. Machines are numbered from 1. */
export interface Lan {
  readonly machines: number
  /** The address of a machine; 0 is the test itself. */
  address (machine: number): string
  /** Prefix of a command that runs on that machine. */
  on (machine: number): readonly string[]
  /** Drops all traffic between two machines, in both directions. */
  cut (a: number, b: number): void
  heal (a: number, b: number): void
  /** Cuts one machine off from all others; the test still reaches it. */
  isolate (machine: number): void
  rejoin (machine: number): void
  /** Disconnects the machine completely; not even the test reaches it. */
  unplug (machine: number): void
  plug (machine: number): void
}

function ip (...args: string[]): string | null {
  const { status, stderr, error } = spawnSync('ip', args, { encoding: 'utf8' })
  return status === 0 ? null : `ip ${args.join(' ')}: ${error?.message ?? stderr.trim()}`
}

function must (...args: string[]): void {
  const problem = ip(...args)
  if (problem !== null) throw new Error(problem)
}

let known: string | null | undefined

/** Null if LANs can be created; otherwise the reason. */
export function available (): string | null {
  known ??= probe() ?? null
  return known
}

function probe (): string | undefined {
  if (process.platform !== 'linux') return 'network namespaces are a thing of Linux'
  if (process.getuid?.() !== 0) return 'network namespaces need root'
  const name = `${LAN}p`
  const problem = ip('netns', 'add', name) ??
    ip('-n', name, 'link', 'add', 'br0', 'type', 'bridge') ??
    ip('-n', name, 'link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'v1')
  ip('netns', 'del', name)
  return problem === null ? undefined : `no network namespaces here (${problem})`
}

/** Creates a LAN that is removed at the end of the test. Throws with the error output from `ip`. */
export function createLan (t: Pick<Test, 'teardown'>, machines: number): Lan {
  const subnet = `10.77.${process.pid % 250 + 1}`
  const address = (machine: number): string => `${subnet}.${machine === 0 ? 254 : machine}`
  const space = (machine: number): string => machine === 0 ? `${LAN}lan` : `${LAN}m${machine}`
  const clean = (): void => {
    for (let i = 0; i <= machines; i++) ip('netns', 'del', space(i))
    ip('link', 'del', `${LAN}t`)
  }
  process.once('exit', clean)
  t.teardown(() => { process.off('exit', clean); clean() })

  must('netns', 'add', space(0))
  must('-n', space(0), 'link', 'add', 'br0', 'type', 'bridge')
  must('-n', space(0), 'link', 'set', 'br0', 'up')
  must('link', 'add', `${LAN}t`, 'type', 'veth', 'peer', 'name', 'p0', 'netns', space(0))
  must('-n', space(0), 'link', 'set', 'p0', 'master', 'br0', 'up')
  must('addr', 'add', `${address(0)}/24`, 'dev', `${LAN}t`)
  must('link', 'set', `${LAN}t`, 'up')
  for (let i = 1; i <= machines; i++) addMachine(space(i), space(0), `p${i}`, `${address(i)}/24`)

  const others = (machine: number): number[] => Array.from({ length: machines }, (_, i) => i + 1)
    .filter((i) => i !== machine)
  const blind = (a: number, b: number): void => {
    must('-n', space(a), 'neigh', 'replace', address(b), 'lladdr', NOBODY, 'dev', 'e0', 'nud', 'permanent')
  }
  const see = (a: number, b: number): void => { ip('-n', space(a), 'neigh', 'del', address(b), 'dev', 'e0') }
  const port = (machine: number, state: 'up' | 'down'): void => {
    must('-n', space(0), 'link', 'set', `p${machine}`, state)
  }
  const lan: Lan = {
    machines, address,
    on: (machine) => ['ip', 'netns', 'exec', space(machine)],
    cut (a, b) { blind(a, b); blind(b, a) },
    heal (a, b) { see(a, b); see(b, a) },
    isolate (machine) { for (const other of others(machine)) lan.cut(machine, other) },
    rejoin (machine) { for (const other of others(machine)) lan.heal(machine, other) },
    unplug (machine) { port(machine, 'down') },
    plug (machine) { port(machine, 'up') }
  }
  return lan
}

function addMachine (space: string, bridge: string, port: string, address: string): void {
  must('netns', 'add', space)
  must('-n', bridge, 'link', 'add', port, 'type', 'veth', 'peer', 'name', 'e0', 'netns', space)
  must('-n', bridge, 'link', 'set', port, 'master', 'br0', 'up')
  must('-n', space, 'addr', 'add', address, 'dev', 'e0')
  must('-n', space, 'link', 'set', 'lo', 'up')
  must('-n', space, 'link', 'set', 'e0', 'up')
}
