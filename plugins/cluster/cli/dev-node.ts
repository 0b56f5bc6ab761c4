import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { envName, launch, readVersioned, writeVersioned, type ExitStatus } from '../../../kernel/cluster.js'
import type { ChildProcess } from 'node:child_process'
import type { VerbContext } from '../../../kernel/cli/index.js'
import type { Ports } from './dev-ports.js'

/** Maximum number of final log lines shown when a node does not start. */
const LAST_LINES = 8

export interface StartedNode { url: string, nodeId: string, pid: number, home: string }

export interface DevNodeOptions {
  name: string, home: string, ports: Ports
  /** Join token for the first start; null for the first node and for a home that is a member already. */
  token: string | null
  env: NodeJS.ProcessEnv, settings: DevSettings, script: string
  /** Aborting stops the node. */
  stop: AbortSignal
  log (line: string): void
  fail: VerbContext['fail']
}

export interface DevNode {
  readonly name: string, readonly home: string, readonly ports: Ports
  /** Resolves when the node is listening; rejects with VerbError (1) if it ends before that. */
  readonly up: Promise<StartedNode>
  readonly over: Promise<ExitStatus>, ending: ExitStatus | undefined
}

/** Environment variables set per node; each node inherits all others. */
const ownSettings = new Set([
  'SVC_HOME', 'SVC_URL', 'SVC_TOKEN', 'SVC_JOIN', 'SVC_NO_LAUNCHER',
  'SVC_NAME', 'SVC_API_HOST', 'SVC_API_PORT',
  'SVC_CLUSTER_HOST', 'SVC_CLUSTER_PORT', 'SVC_CLUSTER_ADVERTISE', 'SVC_CLUSTER_PEERS'
])

export interface DevSettings {
  name: string, port: number, peers?: readonly number[]
  /** Plugin settings for this node, by dotted path; null means the default. */
  own?: Readonly<Record<string, string | null>>
}

export function devEnv (
  env: NodeJS.ProcessEnv, { name, port, peers = [], own = {} }: DevSettings
): NodeJS.ProcessEnv {
  const given = Object.entries(own).map(([path, value]) => [envName(path.split('.')), value] as const)
  const dropped = new Set([...ownSettings, ...given.map(([name]) => name)])
  return {
    ...Object.fromEntries(Object.entries(env).filter(([name]) => !dropped.has(name))),
    ...Object.fromEntries(given.filter(([, value]) => value !== null)),
    SVC_NAME: name,
    SVC_CLUSTER_PORT: String(port),
    // Pass the peers' current ports, since the addresses in members.json may be outdated.
    ...(peers.length === 0 ? {} : { SVC_CLUSTER_PEERS: peers.map((peer) => `127.0.0.1:${peer}`).join(',') }),
    SVC_CLUSTER_DISCOVERY: 'false'
  }
}

const keptPath = (home: string): string => join(home, 'dev.json')

/** Reads a home's dev.json; undefined if the file does not exist. */
export const keptNode = (home: string): Pick<DevNodeOptions, 'ports' | 'settings'> | undefined =>
  readVersioned(keptPath(home), 1)

/** Arguments for `node` that start a development node. */
export const devArgs = (script: string, home: string, { api }: Ports): string[] =>
  [script, 'up', '--home', home, '--host', '127.0.0.1', '--port', String(api)]

/** Starts a node with this process as its launcher, which restarts it on request and stops it on exit. */
export function startDevNode (options: DevNodeOptions): DevNode {
  const { name, home, ports, settings, script, stop, log, fail } = options
  const args = [...devArgs(script, home, ports), '--json']
  const env = devEnv(options.env, settings)
  mkdirSync(home, { recursive: true, mode: 0o700 })
  writeVersioned(keptPath(home), 1, { ports, settings })
  const last: string[] = []
  const addLine = (line: string): void => {
    last.push(line)
    if (last.length > LAST_LINES) last.shift()
    log(line)
  }
  let first: StartedNode | undefined
  let resolveStarted: (line: StartedNode) => void
  const line = new Promise<StartedNode>((resolve) => { resolveStarted = resolve })
  const output = (child: ChildProcess): void => {
    createInterface({ input: child.stderr! }).on('line', addLine)
    createInterface({ input: child.stdout! }).on('line', (text) => {
      const up = first === undefined ? readUp(text) : undefined
      if (up === undefined) addLine(text)
      // Report the pid of the node, not the printed pid, which is the launcher's.
      else resolveStarted(first = { ...up, pid: child.pid! })
    })
  }
  const over = launch({
    args,
    // The token is needed for the first start only. As an argument it would be visible to other users.
    get env () {
      return options.token === null || first !== undefined ? env : { ...env, SVC_JOIN: options.token }
    },
    stop,
    output,
    address: async () => ({ host: '127.0.0.1', port: ports.api })
  })
  const early = over.then((ending) => {
    throw fail(1, [`${name} did not start: ${describeEnding(ending)}`,
      ...last.map((text) => `  ${text}`)].join('\n'))
  })
  const up = Promise.race([line, early])
  up.catch(() => {})
  early.catch(() => {})
  const node: DevNode = { name, home, ports, up, over, ending: undefined }
  over.then((ending) => { node.ending = ending }, () => { node.ending = { status: 1, signal: null } })
  return node
}

function readUp (text: string): StartedNode | undefined {
  try {
    const line = JSON.parse(text) as Partial<StartedNode>
    return typeof line.url === 'string' && typeof line.pid === 'number' ? line as StartedNode : undefined
  } catch { return undefined }
}

export function describeEnding ({ status, signal }: ExitStatus): string {
  return signal === null ? `it exited with status ${status ?? 1}` : `it was killed by ${signal}`
}

interface KeptMembers { clusterId?: unknown, members?: { installId?: unknown }[] }

/** True if both homes belong to one cluster and the first home lists the other's install id. */
export function isMemberOf (first: string, home: string): boolean {
  const theirs = read<KeptMembers>(join(first, 'state', 'members.json'))
  const own = read<KeptMembers>(join(home, 'state', 'members.json'))
  const id = read<{ installId?: unknown }>(join(home, 'node.json'))?.installId
  return theirs?.clusterId !== undefined && theirs.clusterId === own?.clusterId && id !== undefined &&
    theirs.members?.some((member) => member.installId === id) === true
}

function read<T> (path: string): T | undefined {
  try { return JSON.parse(readFileSync(path, 'utf8')) as T } catch { return undefined }
}
