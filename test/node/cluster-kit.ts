/** Clusters of complete nodes as real processes, and fault injection. */
import { randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chaosProxy, type ChaosProxy } from '../tools/chaosproxy.js'
import { ask, stream, type Answer, type Ask, type Stream } from './http.js'
import { fixture, folder, pick, sleep, startNode, until, type TestNode } from './kit.js'
import { does, TTS } from './engine.js'
import { freePorts } from './ports.js'
import { alive, hardKill, holderOf } from './proc.js'
import type { Test } from 'tap'
import type { Lan } from '../tools/netns.js'

/** The product's own heartbeat interval in ms. A shorter one elects new masters on a busy machine. */
const CALM_MS = 2000
/** Heartbeat interval in ms for tests that wait until a silent node is lost; short, except in long form. */
export const HEARTBEAT_MS = pick(400, CALM_MS)
export const ELECTION_MS = pick(600, 3000)
/** Silence in ms after which a node counts as lost. */
export const SILENCE_MS = 3 * HEARTBEAT_MS

/** svc.yaml without any runner, for tests without inference. */
export const quiet = { plugins: { placement: { autoplace: [] } } }

export interface ClusterOptions {
  nodes?: number
  /** Number of nodes started at first; the test starts the rest. All if absent. */
  joined?: number
  quorum?: number | 'majority'
  /** Heartbeat interval in ms instead of the product's own. */
  heartbeatMs?: number
  /** Election timeout in ms instead of `ELECTION_MS`. */
  electionMs?: number
  /** svc.yaml of every node, in addition to `name` and `cluster`. */
  config?: Record<string, unknown>
  /** Additional svc.yaml settings by node number, from 1. */
  configOf?: (number: number) => Record<string, unknown>
  env?: Record<string, string>
  /** Home by node number, from 1; a temporary folder if absent. */
  homeOf?: (number: number) => string
  /** Puts each node behind its own proxy, so that the node can be cut off. */
  proxied?: boolean
  /** Runs each node on a separate machine of this LAN. */
  lan?: Lan
  /** Lets the system assign the ports on every start. */
  anyPort?: boolean
  /** Main file of another release, for starts that do not name one. */
  script?: string
}

export interface State extends Record<string, unknown> {
  sessionId: string
  masterNodeId: string | null
  localNodeId: string
  instances: Record<string, unknown>
  nodeHealth: Record<string, { level: string, reasons: { code: string, severity: string }[] }>
  topology: { nodes: string[], connections: Record<string, Record<string, unknown[]>> }
  cluster: { term: number, quorum: 'ok' | 'lost', stale: boolean, partition: boolean,
    knownNodes: number, liveNodes: number }
}

export interface Agreement { sessionId: string, term: number, master: Member, others: Member[] }

/** Log position of an acknowledged command. */
export interface Receipt { sid: string, term: number, seq: number }

/** A node of the cluster across all its starts. */
export interface Member {
  /** Node number, from 1. */
  readonly number: number
  readonly name: string
  readonly home: string
  /** The running node, or the last one after a kill. */
  readonly node: TestNode
  readonly proxy: ChaosProxy | null
  /** Pid of the node process; changes when the node restarts. */
  pid (): number
  /** Whether the node has been started and not killed since. */
  readonly up: boolean
  /** Starts the node with the same home and ports; resolves once it listens. */
  start (more?: { args?: readonly string[], env?: Record<string, string>, script?: string }): Promise<void>
  /** The node's svc.yaml, with some settings of `cluster` replaced. */
  config (more?: Record<string, unknown>): Record<string, unknown>
  /** kill -9 of all the node's processes. */
  kill (): Promise<void>
  pause (): void
  cont (): void
  /** Sends a request; undefined if no answer arrives within `ms`. */
  ask (path: string, options?: Ask & { ms?: number }): Promise<Answer | undefined>
  state (): Promise<State | undefined>
  /** Sends a command without effect. Repeating an id repeats the same command. */
  touch (id?: string, ms?: number): Promise<Answer | undefined>
}

export interface Cluster {
  readonly members: readonly Member[]
  up (): Member[]
  /**
   * Waits until the nodes (by default all that are up) report the same session, the same master and the same
   * number of live nodes.
   */
  agreed (options?: { on?: readonly Member[], live?: number, not?: string, seconds?: number }):
  Promise<Agreement>
  /** Requests a join token from a member; the answer may be a refusal. */
  joinToken (from: Member, ttlSeconds?: number): Promise<Answer>
  /** Cuts two members off from each other, or one member from all others. Needs `proxied` or `lan`. */
  cut (a: Member, b?: Member): void
  heal (a: Member, b?: Member): void
}

/** A node's answer; undefined if it refuses or closes the connection, or does not answer within `ms`. */
async function soon (node: TestNode, path: string, { ms = 5000, ...options }: Ask & { ms?: number } = {}):
Promise<Answer | undefined> {
  const answer = ask(node, path, options).catch(() => undefined)
  const late = new AbortController()
  try {
    return await Promise.race([answer, sleep(ms, late.signal).then(() => undefined)])
  } finally {
    late.abort()
  }
}

/** Pid of the process that locks the home, known even before the node listens. */
function lockHolder (home: string): number | undefined {
  try {
    return (JSON.parse(readFileSync(join(home, 'run/node.lock'), 'utf8')) as { pid: number }).pid
  } catch { return undefined }
}

interface Place { api: number, members: number, host: string | null, before: readonly string[] }

/** Creates one node of a cluster without starting it. */
async function member (t: Test, number: number, place: Place, options: ClusterOptions,
  pids: () => Map<number, string>): Promise<Member> {
  const name = `n${number}`
  const home = options.homeOf?.(number) ?? join(folder(t), 'home')
  const proxy = options.proxied === true ? await proxyFor(t, place, pids) : null
  const config = (more: Record<string, unknown> = {}): Record<string, unknown> => ({
    ...options.config ?? quiet,
    ...options.configOf?.(number),
    name,
    cluster: {
      heartbeat_ms: options.heartbeatMs ?? CALM_MS,
      election_timeout_ms: options.electionMs ?? ELECTION_MS,
      discovery: false, ...options.anyPort === true ? {} : { port: place.members },
      ...options.quorum === undefined ? {} : { quorum: options.quorum },
      ...proxy === null ? {} : { advertise: proxy.address },
      ...more
    }
  })
  let node: TestNode | undefined
  let up = false
  const running = (): TestNode => {
    if (node === undefined) throw new Error(`${name} is not started`)
    return node
  }
  const self: Member = {
    number, name, home, proxy, config,
    get node () { return running() },
    get up () { return up },
    pid: () => lockHolder(home) ?? node?.pid ?? 0,
    async start ({ args = [], env = {}, script = options.script } = {}) {
      const host = place.host === null ? [] : ['--host', place.host]
      const port = options.anyPort === true ? '0' : String(place.api)
      node = await startNode(t, { home, config: config(), ready: false, before: place.before, script,
        env: { ...options.env, ...env }, args: ['--port', port, ...host, ...args] })
      up = true
    },
    async kill () {
      up = false
      const pid = self.pid()
      hardKill(pid)
      hardKill(running().child.pid)
      await until(`the end of ${name}`, () => !alive(pid) && !alive(running().child.pid), { everyMs: 2 })
    },
    pause () { process.kill(self.pid(), 'SIGSTOP') },
    cont () { process.kill(self.pid(), 'SIGCONT') },
    ask: async (path, more) => await soon(running(), path, more),
    async state () {
      const answer = await soon(running(), '/state')
      return answer?.status === 200 ? answer.json as State : undefined
    },
    touch: async (id, ms = 20_000) => await soon(running(), '/cluster/touch',
      { method: 'POST', ms, ...id === undefined ? {} : { headers: { 'x-svc-command-id': id } } })
  }
  return self
}

/** A proxy in front of a node's member listener that identifies the dialling member by its pid. */
async function proxyFor (t: Test, place: Place, pids: () => Map<number, string>): Promise<ChaosProxy> {
  const made: { proxy?: ChaosProxy } = {}
  const proxy = await chaosProxy({
    target: { host: '127.0.0.1', port: place.members },
    from: ({ port }) => {
      const known = pids()
      const pid = holderOf({ local: port, remote: made.proxy?.port ?? 0 }, [...known.keys()])
      return pid === undefined ? undefined : known.get(pid)
    }
  })
  made.proxy = proxy
  t.teardown(() => proxy.close())
  return proxy
}

/** Starts a cluster and waits until its started nodes agree. */
export async function startCluster (t: Test, options: ClusterOptions = {}): Promise<Cluster> {
  const count = options.nodes ?? 3
  const ports = options.lan === undefined ? await freePorts(2 * count) : []
  const members: Member[] = []
  const pids = (): Map<number, string> => new Map(members.map((m) => [m.pid(), m.name]))
  for (let number = 1; number <= count; number++) {
    const [api = 52415, second = 52416] = ports.slice(2 * number - 2)
    members.push(await member(t, number, {
      api, members: second, host: options.lan?.address(number) ?? null, before: options.lan?.on(number) ?? []
    }, options, pids))
  }
  const cluster = clusterOf(members, options.lan)
  await members[0]!.start()
  const joined = members.slice(0, options.joined ?? count)
  await Promise.all(joined.slice(1).map(async (each) => {
    const { token } = (await cluster.joinToken(members[0]!)).json as { token: string }
    await each.start({ args: ['--join', token] })
  }))
  await cluster.agreed()
  if (options.quorum !== undefined && options.quorum !== 1) {
    await until('all to be voters', () => joined.every((m) => voters(m) === joined.length))
  }
  return cluster
}

/** Number of voters on a node's disk, which a majority quorum keeps current by storing every log entry. */
function voters ({ home }: Member): number {
  try {
    const text = readFileSync(join(home, 'state/control.json'), 'utf8')
    const { snapshot } = JSON.parse(text) as { snapshot: { voters: string[] | null } }
    return snapshot.voters?.length ?? 0
  } catch { return 0 }
}

function clusterOf (members: readonly Member[], lan: Lan | undefined): Cluster {
  const up = (): Member[] => members.filter((m) => m.up)
  const pairs = (a: Member, b: Member | undefined): [Member, Member][] =>
    (b === undefined ? members.filter((m) => m !== a) : [b]).map((other) => [a, other])
  const proxyOf = (m: Member): ChaosProxy => {
    if (m.proxy === null) throw new Error('cutting links needs proxies or a LAN: set proxied or lan')
    return m.proxy
  }
  return {
    members, up,
    async agreed ({ on = up(), live = on.length, not, seconds = 30 } = {}) {
      const said: unknown[] = []
      return await until(`${live} nodes to agree`, async () => {
        const states = await Promise.all(on.map((m) => m.state()))
        said.splice(0, said.length, ...states.map((s) => s === undefined ? null
          : { session: s.sessionId, master: s.masterNodeId, ...s.cluster }))
        return agreement(on, states, live, not)
      }, { seconds }).catch((error: Error) => {
        throw new Error(`${error.message}; they say ${JSON.stringify(said)}`, { cause: error })
      })
    },
    async joinToken (from, ttlSeconds) {
      const body = { ...lan === undefined ? { local: true } : {},
        ...ttlSeconds === undefined ? {} : { ttl_seconds: ttlSeconds } }
      return await ask(from.node, '/cluster/join-tokens', { body })
    },
    cut (a, b) {
      for (const [x, y] of pairs(a, b)) {
        if (lan !== undefined) lan.cut(x.number, y.number)
        else { proxyOf(x).cut(y.name); proxyOf(y).cut(x.name) }
      }
    },
    heal (a, b) {
      for (const [x, y] of pairs(a, b)) {
        if (lan !== undefined) lan.heal(x.number, y.number)
        else { proxyOf(x).heal(y.name); proxyOf(y).heal(x.name) }
      }
    }
  }
}

/** The session and master on which the states agree; undefined while they differ. */
function agreement (on: readonly Member[], states: readonly (State | undefined)[], live: number,
  not: string | undefined): Agreement | undefined {
  const [first] = states
  if (first === undefined || first.masterNodeId === null || first.sessionId === not) return undefined
  const same = states.every((s) => s?.sessionId === first.sessionId &&
    s.masterNodeId === first.masterNodeId && s.cluster.term === first.cluster.term &&
    !s.cluster.stale && s.cluster.liveNodes === live)
  const master = on.find((_, i) => states[i]?.localNodeId === first.masterNodeId)
  if (!same || master === undefined) return undefined
  return { sessionId: first.sessionId, term: first.cluster.term, master,
    others: on.filter((m) => m !== master) }
}

/** Keys of /state that differ between nodes: gossiped or measured values, and the answering node's id. */
const MEASURED: ReadonlySet<string> = new Set(['localNodeId', 'nodeMemory', 'nodeSystem', 'nodeDisk',
  'nodeNetwork', 'lastSeen', 'downloads', 'tasks', 'rttMs', 'bytesPerSecond'])

/** A state as text with sorted keys, without the keys of `MEASURED`. */
function documents (state: State): string {
  return JSON.stringify(state, (key, value: unknown) => {
    if (MEASURED.has(key)) return undefined
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1))
  })
}

/** Waits until /state is the same on all these members; fails with the names of the differing keys. */
export async function sameState (on: readonly Member[], seconds = 30): Promise<void> {
  let differ: string[] = []
  await until('the same /state everywhere', async () => {
    const states = await Promise.all(on.map((m) => m.state()))
    const [first] = states
    if (first === undefined || states.includes(undefined)) return false
    differ = Object.keys(first).filter((key) => !MEASURED.has(key) &&
      states.some((s) => documents({ x: s?.[key] } as never) !== documents({ x: first[key] } as never)))
    return states.every((s) => documents(s!) === documents(first))
  }, { seconds }).catch((error: Error) => {
    throw new Error(`${error.message}; different: ${differ.join(', ')}`, { cause: error })
  })
}

/** p50, p95 and maximum of the values. */
export function percentiles (values: readonly number[]): { p50: number, p95: number, max: number } {
  const sorted = [...values].sort((a, b) => a - b)
  const last = sorted.length - 1
  const at = (share: number): number => sorted[Math.min(last, Math.floor(sorted.length * share))]!
  return { p50: at(0.5), p95: at(0.95), max: sorted.at(-1)! }
}

/** The receipt in an answer to `touch`; undefined if it was not acknowledged. */
export function receiptOf (answer: Answer | undefined): Receipt | undefined {
  if (answer?.status !== 200) return undefined
  const { sid, term, seq } = answer.json as Receipt
  return { sid, term, seq }
}

/** Sends the same command to the members in turn until one acknowledges it. */
export async function acknowledged (on: readonly Member[], seconds = 30): Promise<Receipt> {
  const id = randomUUID()
  let turn = 0
  return await until('a command to be acknowledged', async () =>
    receiptOf(await on[turn++ % on.length]!.touch(id)), { seconds, everyMs: 5 })
}

/** Opens an endless speech stream from the faulty engine; svc.yaml on the node must be `faultsConfig()`. */
export async function openSpeech ({ node }: Member, text = 'x', extra: Record<string, unknown> = {}):
Promise<Stream> {
  const payload = does('test/ok', 'count', { bytes: 100, delayMs: 20 }, text)
  const opened = await stream(node, TTS, payload, { extra })
  await opened.frames.next()
  return opened
}

/** Environment that shifts a node's wall clock by `offsetMs`; `set` makes the clock jump. */
export function skewed (t: Test, offsetMs: number): { env: Record<string, string>, set (ms: number): void } {
  const path = join(folder(t), 'offset')
  const set = (ms: number): void => { writeFileSync(path, String(ms)) }
  set(offsetMs)
  const url = `file://${fixture('skewed-clock.mjs')}`
  return { set, env: { NODE_OPTIONS: `--import ${url}`, TEST_CLOCK_FILE: path } }
}
