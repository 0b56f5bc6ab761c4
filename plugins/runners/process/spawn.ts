import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { noInspector } from '../../../kernel/index.js'
import type { Files } from './confine.js'
import { networkSharing } from './peers.js'
import { MARK, writePidfile } from './pidfile.js'
import { attempt } from './proc.js'
import {
  heldCommand, probeSandboxLevel, OOM_SCORE_ADJ, sharesNetwork, type Network, type SandboxLevel
} from './sandbox.js'
import type { Duplex, Readable } from 'node:stream'

/** Environment variables of the node that a runner also gets: no secrets and no Node options. */
const ENV_NAMES = new Set(['PATH', 'LANG', 'LANGUAGE', 'TZ', 'TMPDIR', 'LD_LIBRARY_PATH', 'DYLD_LIBRARY_PATH',
  'CUDA_VISIBLE_DEVICES', 'OMP_NUM_THREADS'])
const ENV_PATTERNS = [/^LC_[A-Z]+$/, /^NVIDIA_[A-Z_]+$/, /^SVC_[A-Z0-9_]+_SERVER_BIN$/]

/**
 * Saves about 60 MB per speech runner, because glibc otherwise keeps an arena per thread and V8 sizes its
 * young generation for servers.
 */
const LEAN_ENV = { MALLOC_ARENA_MAX: '1' }
const LEAN_FLAGS = ['--max-semi-space-size=8']
/**
 * Disables onnxruntime's telemetry, which 1.30 and later send by default, and llama.cpp's stack trace on
 * abort, which would follow the line with the reason.
 */
const QUIET_ENV = { ORT_DISABLE_TELEMETRY: '1', GGML_NO_BACKTRACE: '1' }
/** Makes CUDA number the GPUs as the node does; by default CUDA puts the fastest GPU first. */
const DEVICE_ENV = { CUDA_DEVICE_ORDER: 'PCI_BUS_ID' }

/** A new runner process: the pid of its process group, its output, and the frame socket. */
export type Launched = ReturnType<typeof launch>

/** The environment of a runner: the allowed variables, its own home, and its mark in MARK. */
export function runnerEnv (
  env: Record<string, string | undefined>, scratch: string, mark: string
): Record<string, string> {
  const allowed = (name: string): boolean =>
    ENV_NAMES.has(name) || ENV_PATTERNS.some((pattern) => pattern.test(name))
  const inherited = Object.entries(env).filter((entry): entry is [string, string] =>
    entry[1] !== undefined && allowed(entry[0]))
  const fixed = { ...LEAN_ENV, ...QUIET_ENV, ...DEVICE_ENV }
  return { ...Object.fromEntries(inherited), ...fixed, HOME: scratch, [MARK]: mark }
}

/**
 * Path of the runner's entry script. When this file runs from TypeScript sources (tests), it is the compiled
 * script under dist. Throws if that has not been built.
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

export interface LaunchOptions {
  scratch: string
  mark: string
  entry?: string
  files?: (() => Files) | undefined
  network?: Network | undefined
  hold?: SandboxLevel
  /** Monotonic time in ms. */
  now?: number
}

/**
 * Starts a runner process in a new process group and session. With `setpriv` the kernel kills the runner when
 * this process dies; in any case the runner's watchdog thread does. Throws if no process can be started.
 */
export function launch ({ scratch, mark, files, network, now = 0, ...options }: LaunchOptions) {
  // The node's own files are outside `work`, so that the runner cannot replace one with a link.
  const work = join(scratch, 'work')
  mkdirSync(work, { recursive: true, mode: 0o700 })
  const cell = files === undefined ? undefined : { scratch, work, files, network }
  const { hold: best, tools } = probeSandboxLevel(cell, now)
  const hold = options.hold ?? best
  networkSharing.begun ||= sharesNetwork(hold, network)
  // In a PID namespace the runner's parent is the shell, which has pid 1.
  const parent = hold === 'namespaces' ? 1 : process.pid
  const entry = options.entry ?? hostEntry()
  const command = [process.execPath, ...noInspector(), '--no-warnings', ...LEAN_FLAGS, entry, String(parent),
    hold]
  const [file, ...args] = heldCommand(hold, tools, cell, command) ?? command
  const child = spawn(file!, args, {
    cwd: work,
    detached: true,
    env: {
      ...runnerEnv(process.env, work, mark),
      // The work folder is the only one to which the runner may write.
      ...(hold === 'privileges' || hold === 'none' ? {} : { TMPDIR: work })
    },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe']
  })
  if (child.pid === undefined) {
    child.on('error', () => {})
    throw new Error(`cannot start a runner process: the system refused to run ${file} in its work folder`)
  }
  preferAsVictim(child.pid)
  try {
    writePidfile(scratch, child.pid, mark)
  } catch (error) {
    signalGroup(child.pid, 'SIGKILL')
    throw error
  }
  const [, stdout, stderr, frames] = child.stdio as unknown as [null, Readable, Readable, Duplex]
  return { child, pid: child.pid, stdout, stderr, frames, hold }
}

/** How a runner ended: with namespaces, the shell around it reports a signal as its exit status. */
export function endOf (
  hold: SandboxLevel, code: number | null, signal: NodeJS.Signals | null
): { code: number | null, signal: string | null } {
  const number = hold === 'namespaces' && signal === null ? (code ?? 0) - 128 : 0
  const name = Object.entries(constants.signals).find(([, value]) => value === number)?.[0]
  return name === undefined ? { code, signal } : { code: null, signal: name }
}

/** Does nothing if the system is not Linux, or if the process has already ended. */
function preferAsVictim (pid: number): void {
  attempt(() => { writeFileSync(`/proc/${pid}/oom_score_adj`, String(OOM_SCORE_ADJ)) }, undefined)
}

/**
 * Sends a signal to a process group; a group that has ended is not an error. Throws RangeError for a group id
 * of 1 or less, which would send the signal to every process or to the node's own group.
 */
export function signalGroup (pid: number, signal: NodeJS.Signals): void {
  if (!(pid > 1)) throw new RangeError(`${pid} leads no process group of a runner`)
  attempt(() => process.kill(-pid, signal), false)
}
