import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isMainThread } from 'node:worker_threads'
import { runnable } from '../machine/programs.js'
import { fileRules } from './confine.js'
import type { Hold } from './confine.js'
import { MARK, writePidfile } from './pidfile.js'
import type { Duplex, Readable } from 'node:stream'

/** Added to the runner's score, so that the kernel ends a runner before the node when memory is out. */
const OOM_SCORE_ADJ = '500'
const SETPRIV_CHECK_MS = 5_000

/** What of the node's environment a runner sees: no secrets, no node options. */
const ENV_NAMES = new Set(['PATH', 'LANG', 'LANGUAGE', 'TZ', 'TMPDIR', 'LD_LIBRARY_PATH', 'DYLD_LIBRARY_PATH',
  'CUDA_VISIBLE_DEVICES', 'OMP_NUM_THREADS'])
const ENV_PATTERNS = [/^LC_[A-Z]+$/, /^NVIDIA_[A-Z_]+$/, /^SVC_[A-Z0-9_]+_SERVER_BIN$/]

/**
 * Without these a speech runner grows by some 60 MB: glibc keeps an arena per thread, and V8 a young
 * generation sized for servers.
 */
const LEAN_ENV = { MALLOC_ARENA_MAX: '1' }
const LEAN_FLAGS = ['--max-semi-space-size=8']
/**
 * onnxruntime from 1.30 reports its use to its maker unless told not to: nothing leaves this machine.
 * llama.cpp has its stack printed when it aborts, after the line that says why.
 */
const QUIET_ENV = { ORT_DISABLE_TELEMETRY: '1', GGML_NO_BACKTRACE: '1' }
/** GPUs are numbered as the node counts them; by itself CUDA has the fastest first. */
const DEVICE_ENV = { CUDA_DEVICE_ORDER: 'PCI_BUS_ID' }

/** A runner process just started: its pid, its output, and the socket frames travel on. */
export interface Launched {
  child: ChildProcess
  pid: number
  stdout: Readable
  stderr: Readable
  frames: Duplex
  hold: Hold
}

/** The environment of a runner: the allow-list, a home of its own, and its mark. */
export function runnerEnv (
  env: Record<string, string | undefined>, scratch: string, mark: string
): Record<string, string> {
  const allowed = (name: string): boolean =>
    ENV_NAMES.has(name) || ENV_PATTERNS.some((pattern) => pattern.test(name))
  const kept = Object.entries(env).filter((entry): entry is [string, string] =>
    entry[1] !== undefined && allowed(entry[0]))
  const fixed = { ...LEAN_ENV, ...QUIET_ENV, ...DEVICE_ENV }
  return { ...Object.fromEntries(kept), ...fixed, HOME: scratch, [MARK]: mark }
}

/**
 * Path of the runner's entry script. From TypeScript sources (tests) it is the compiled one under dist.
 * Throws when that has not been built.
 */
export function hostEntry (here: string = import.meta.url): string {
  if (!here.endsWith('.ts')) return fileURLToPath(new URL('./host.js', here))
  const root = fileURLToPath(new URL('../../../', here))
  const entry = join(root, 'dist', 'plugins', 'runners', 'process', 'host.js')
  if (!existsSync(entry)) {
    throw new Error(`the runner entry ${entry} is not built: run \`npm run build\` first`)
  }
  return entry
}

/** A `setpriv`, and how far it can hold a runner here. */
interface Setpriv { path: string, hold: Hold }

const setprivs = new Map<string, Hold | null>()
const DEATH_SIGNAL = ['--pdeathsig', 'KILL']
const NO_NEW_RIGHTS = '--no-new-privs'

/** Path of a `setpriv` that knows `--pdeathsig`, from PATH; null where there is none. */
export function findSetpriv (path: string = process.env['PATH'] ?? ''): Setpriv | null {
  if (process.platform !== 'linux') return null
  const folders = path.split(delimiter).filter((dir) => dir.startsWith('/'))
  const found = folders.map((dir) => join(dir, 'setpriv')).find(runnable)
  if (found === undefined) return null
  const hold = holdOf(found)
  return hold === null ? null : { path: found, hold }
}

/**
 * The most that this setpriv and this kernel do together; null when not even the death signal. Builds of
 * both differ in what they know. Asked once per path, unless a try ran out of time or was killed.
 */
function holdOf (setpriv: string): Hold | null {
  const known = setprivs.get(setpriv)
  if (known !== undefined) return known
  let sure = true
  const works = (more: readonly string[]): boolean => {
    const { status } = spawnSync(setpriv, [...DEATH_SIGNAL, ...more, '--', process.execPath, '-v'],
      { stdio: 'ignore', env: {}, timeout: SETPRIV_CHECK_MS })
    sure &&= status !== null
    return status === 0
  }
  const hold = works([NO_NEW_RIGHTS, ...fileRules(['/'], tmpdir())]) ? 'files'
    : works([NO_NEW_RIGHTS]) ? 'privileges' : works([]) ? 'none' : null
  if (sure) setprivs.set(setpriv, hold)
  return hold
}

/**
 * Starts a runner process in a group and session of its own. Where `setpriv` is there, the kernel kills
 * the runner when this process dies; everywhere, a thread of the runner does. With `reads` it is held to
 * those files and its own folder, as far as this machine can do that. Throws when the system refuses to start
 * a process.
 */
export function launch (
  options: { scratch: string, mark: string, entry?: string, reads?: (() => readonly string[]) | undefined }
): Launched {
  const entry = options.entry ?? hostEntry()
  const command = [process.execPath, '--no-warnings', ...LEAN_FLAGS, entry, String(process.pid)]
  // The death signal is sent when the spawning *thread* ends, so only the main thread may ask for it.
  const setpriv = isMainThread ? findSetpriv() : null
  const hold = options.reads === undefined ? 'none' : setpriv?.hold ?? 'none'
  const [file, ...args] = setpriv === null ? command
    : [setpriv.path, ...DEATH_SIGNAL, ...holding(hold, options), '--', ...command]
  const child = spawn(file as string, args, {
    cwd: options.scratch,
    detached: true,
    env: {
      ...runnerEnv(process.env, options.scratch, options.mark),
      // The only place it may write to.
      ...(hold === 'files' ? { TMPDIR: options.scratch } : {})
    },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe']
  })
  if (child.pid === undefined) {
    child.on('error', () => {})
    throw new Error(`cannot start a runner process: the system refused to run ${file} in its scratch folder`)
  }
  preferAsVictim(child.pid)
  try {
    writePidfile(options.scratch, child.pid, options.mark)
  } catch (error) {
    signalGroup(child.pid, 'SIGKILL')
    throw error
  }
  const [, stdout, stderr, frames] = child.stdio as unknown as [null, Readable, Readable, Duplex]
  return { child, pid: child.pid, stdout, stderr, frames, hold }
}

function holding (
  hold: Hold, { scratch, reads }: { scratch: string, reads?: (() => readonly string[]) | undefined }
): string[] {
  if (hold === 'none') return []
  return [NO_NEW_RIGHTS, ...hold === 'files' ? fileRules(reads?.() ?? [], scratch) : []]
}

function preferAsVictim (pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, OOM_SCORE_ADJ)
  } catch {
    // Not Linux, or the process has ended already; its exit tells the rest.
  }
}

/**
 * Sends a signal to a whole process group; a group that is gone is no error. Throws a RangeError for a leader
 * of 1 or less: the signal would reach every process of the machine, or our own group.
 */
export function signalGroup (pid: number, signal: NodeJS.Signals): void {
  if (!(pid > 1)) throw new RangeError(`${pid} leads no process group of a runner`)
  try {
    process.kill(-pid, signal)
  } catch {
    // Already gone.
  }
}
