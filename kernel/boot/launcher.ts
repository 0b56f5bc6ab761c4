/**
 * The parent process of a node. It holds the listening socket and restarts the node on request, so that
 * connections made during a restart wait in the backlog instead of being refused. The launcher never accepts:
 * it binds the socket, and the node, which gets it as file descriptor LISTEN_FD, listens. A node on
 * loopback has two sockets, since `localhost` may be 127.0.0.1 or ::1. Imports little, since this process
 * should use hardly any memory.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { lookup } from 'node:dns/promises'
import net from 'node:net'
import { availableParallelism, constants } from 'node:os'
import { noInspector } from './inspector.js'

/** Exit status with which a node asks its launcher for a restart (EX_TEMPFAIL of sysexits.h). */
export const RESTART_STATUS = 75

/** File descriptors of a launched node's sockets; the descriptor between them is the IPC channel. */
export const LISTEN_FD = 3
const LISTEN_FD6 = 5

/** Variables set for the node: launcher pid, socket descriptors (empty if none), number of starts. */
export const launcherEnv = {
  pid: 'SVC_LAUNCHER_PID', fd: 'SVC_LISTEN_FD', fd6: 'SVC_LAUNCHER_FD6', starts: 'SVC_LAUNCHER_STARTS'
} as const

/** The other loopback address to listen on in addition to `host`; undefined if there is none. */
export const secondLoopback = (host: string): string | undefined =>
  ['127.0.0.1', 'localhost'].includes(host) ? '::1' : undefined

/** Address to listen on; port 0 means any free port. */
export interface Address { host: string, port: number }

export interface LaunchOptions {
  /** Arguments for Node: the script, then the script's arguments. */
  args: readonly string[]
  env: NodeJS.ProcessEnv
  /** Resolves to the address for the next start; null if the node must open the port itself. */
  address (): Promise<Address | null>
  /** Called at every start to read the node's stdout and stderr; by default the node uses the launcher's. */
  output?: (child: ChildProcess) => void
  /** Aborting this signal asks the node to stop, like SIGTERM. */
  stop?: AbortSignal
}

/** How a node ended: by exit status or by signal; the other field is null. */
export interface ExitStatus { status: number | null, signal: NodeJS.Signals | null }

/** Listening on the address failed; `code` is the system's error code, such as EADDRINUSE. */
export class ListenError extends Error {
  override readonly name = 'ListenError'
  readonly code: string
  readonly address: Address
  constructor (code: string, address: Address) {
    super(`cannot listen on ${address.host}:${address.port}: ${code}`)
    this.code = code
    this.address = address
  }
}

/** A bound socket that is not listening yet. */
interface Held { wanted: Address, fd: number, port: number, fd6?: number, close (): void }

/** The part of Node's internal TCP handle used here; `net._createServerHandle` creates a bound handle. */
interface TcpHandle { fd: number, close (): void, getsockname (out: { port?: number }): number }
interface NetInternals {
  _createServerHandle (host: string, port: number, family: number): TcpHandle | number
}

/** Runs a node through its restarts until it ends. Forwards stop signals. Throws ListenError. */
export async function launch (options: LaunchOptions): Promise<ExitStatus> {
  let child: ChildProcess | undefined
  let stopping: NodeJS.Signals | undefined
  let held: Held | undefined
  const pass = (signal: NodeJS.Signals): void => {
    stopping = signal
    child?.kill(signal)
  }
  // Ctrl-C reaches the whole process group, so the node gets the signal twice and treats both as one.
  for (const signal of STOP_SIGNALS) process.on(signal, pass)
  const quit = (): void => { pass('SIGTERM') }
  options.stop?.addEventListener('abort', quit)
  if (options.stop?.aborted === true) quit()
  try {
    for (let starts = 1; ; starts++) {
      held = await hold(held, await options.address())
      if (stopping !== undefined) return { status: null, signal: stopping }
      child = start(options, held, starts)
      const ending = await ended(child)
      child = undefined
      if (ending.status !== RESTART_STATUS || stopping !== undefined) return stopped(ending, stopping)
    }
  } finally {
    for (const signal of STOP_SIGNALS) process.off(signal, pass)
    options.stop?.removeEventListener('abort', quit)
    held?.close()
  }
}

const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** A node that a signal stops during a restart counts as stopped. */
function stopped (ending: ExitStatus, signal: NodeJS.Signals | undefined): ExitStatus {
  return ending.status === RESTART_STATUS && signal !== undefined ? { status: null, signal } : ending
}

/** Ends this process as the node ended: with the same exit status, or by the same signal. */
export function exitLike ({ status, signal }: ExitStatus): void {
  if (signal === null) {
    process.exitCode = status ?? 1
    return
  }
  process.exitCode = 128 + (constants.signals[signal] ?? 0)
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}

/** libuv threads. A hanging disk blocks each thread that waits for it; the default four soon run out. */
const THREADS = '16'

/**
 * V8 threads for garbage collection, in addition to the event loop. V8's default of four would leave the
 * event loop of a small machine without a processor for tens of milliseconds.
 */
const collectors = (): number => Math.min(4, Math.max(1, availableParallelism() - 1))

/** V8's space for new objects in MiB; the default of 16 keeps 20 MiB more resident and saves no time. */
const NEW_SPACE_MIB = 4

function start (options: LaunchOptions, held: Held | undefined, starts: number): ChildProcess {
  const [command, ...before] = [...withParent(), process.execPath]
  const env = {
    UV_THREADPOOL_SIZE: THREADS, ...options.env, [launcherEnv.pid]: String(process.pid),
    [launcherEnv.fd]: held === undefined ? '' : String(LISTEN_FD),
    [launcherEnv.fd6]: held?.fd6 === undefined ? '' : String(LISTEN_FD6),
    [launcherEnv.starts]: String(starts)
  }
  const own = options.output === undefined ? 'inherit' : 'pipe'
  // This process's own flags come last, so they take precedence.
  const flags = [
    `--v8-pool-size=${collectors()}`, `--max-semi-space-size=${NEW_SPACE_MIB}`, ...noInspector(),
    ...process.execArgv
  ]
  const child = spawn(command, [...before, ...flags, ...options.args], {
    env,
    stdio: [own === 'pipe' ? 'ignore' : own, own, own, held?.fd ?? 'ignore', 'ipc', held?.fd6 ?? 'ignore']
  })
  options.output?.(child)
  return child
}

let parentCommand: string[] | undefined

/** Command prefix that kills a child when this process dies, even by SIGKILL; empty without setpriv. */
function withParent (): string[] {
  const command = ['setpriv', '--pdeathsig', 'KILL']
  parentCommand ??= process.platform === 'linux' &&
    spawnSync(command[0]!, [...command.slice(1), 'true'], { stdio: 'ignore' }).status === 0
    ? command
    : []
  return parentCommand
}

function ended (child: ChildProcess): Promise<ExitStatus> {
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', (status, signal) => { resolve({ status, signal }) })
  })
}

/** Keeps the socket if the address is unchanged; otherwise closes it and binds a new one. */
async function hold (held: Held | undefined, wanted: Address | null): Promise<Held | undefined> {
  if (held !== undefined && held.wanted.host === wanted?.host && held.wanted.port === wanted.port) return held
  held?.close()
  if (wanted === null) return undefined
  const first = await bind({ ...wanted, host: wanted.host === 'localhost' ? '127.0.0.1' : wanted.host })
  const other = secondLoopback(wanted.host)
  // Without IPv6 there is no ::1; if another program uses the port there, the node reports it.
  const second = other === undefined ? null : await bind({ host: other, port: first.port }).catch(() => null)
  if (second === null) return { ...first, wanted }
  return { ...first, wanted, fd6: second.fd, close: () => { first.close(); second.close() } }
}

async function bind (wanted: Address): Promise<Held> {
  const { address, family } = await lookup(wanted.host).catch((error: NodeJS.ErrnoException) => {
    throw new ListenError(error.code ?? 'ENOTFOUND', wanted)
  })
  await probe(wanted, address)
  const made = (net as unknown as NetInternals)._createServerHandle(address, wanted.port, family)
  if (typeof made === 'number') throw new ListenError(errorName(made), wanted)
  // libuv reports an address in use only at listen(); until then, getsockname() shows no port for it.
  const name: { port?: number } = {}
  const problem = made.getsockname(name)
  if (problem !== 0 || (name.port ?? 0) === 0) {
    made.close()
    throw new ListenError(problem === 0 ? 'EADDRINUSE' : errorName(problem), wanted)
  }
  return { wanted, fd: made.fd, port: name.port!, close: () => { made.close() } }
}

/** Two sockets may bind the same port until one is listening, so a successful bind does not prove it free. */
function probe (wanted: Address, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = net.createServer()
    server.on('error', (error: NodeJS.ErrnoException) => {
      reject(new ListenError(error.code ?? 'EIO', wanted))
    })
    server.listen({ host: address, port: wanted.port }, () => { server.close(() => { resolve() }) })
  })
}

function errorName (errno: number): string {
  const found = Object.entries(constants.errno).find(([, value]) => value === -errno)
  return found?.[0] ?? String(errno)
}
