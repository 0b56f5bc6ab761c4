import { DISK_FULL_BYTES, DISK_LOW_BYTES } from '../observe/self-watch.js'
import { showBytes } from './text.js'
import type { ClusterState } from './cluster-state.js'
import type { Fact, ToolContext } from './tool.js'

/** One thing looked at: what was found, in numbers, and what to do about it. */
export interface Check {
  name: string
  result: 'ok' | 'warn' | 'fail'
  message: string
  /** The next command or step; null when there is nothing to do. */
  remedy: string | null
  /** What kind of finding it is, as that of a fact; the name of the check in snake_case where absent. */
  code?: string
  /** Names of the nodes and ids of the models it is about. */
  about?: readonly string[]
  evidence?: Fact['evidence']
}

/** The parts of a check for programs. */
export type CheckData = Pick<Check, 'code' | 'about' | 'evidence'>

export const ok = (name: string, message: string, told: CheckData = {}): Check =>
  ({ name, result: 'ok', message, remedy: null, ...told })
export const warn = (name: string, message: string, remedy: string, told: CheckData = {}): Check =>
  ({ name, result: 'warn', message, remedy, ...told })
export const fail = (name: string, message: string, remedy: string, told: CheckData = {}): Check =>
  ({ name, result: 'fail', message, remedy, ...told })

export function factOf ({ name, result, message, remedy, code, about = [], evidence = [] }: Check): Fact {
  const text = `${name[0]?.toUpperCase()}${name.slice(1)}: ${message.replace(/\.$/, '')}.`
  return { level: result, code: code ?? name.replace(/\W+/g, '_'), text, about, evidence, remedy }
}

/** Context of a plugin's part of `svc doctor` or `svc status`. */
export interface CheckContext extends Pick<ToolContext, 'look'> {
  /** The answer of GET /state. */
  readonly state: ClusterState
}

export interface Checker { run (ctx: CheckContext): Promise<Check[]> }

export interface StatusPart { run (ctx: CheckContext): Promise<StatusLines> }

export interface StatusLines {
  json: Record<string, unknown>
  /** Lines above and below the table of the nodes. */
  above: string[]
  below: string[]
}

const HOME_DISK = {
  name: 'disk', remedy: 'Free some space, or put the home on another disk with --home.'
} as const

/** Free bytes of a disk; `about` says whose it is and what makes room there. Pure. */
export function judgeDisk (
  free: number, total: number, { name, remedy }: { name: string, remedy: string } = HOME_DISK
): Check {
  const message = `${showBytes(free)} free of ${showBytes(total)}`
  if (free <= DISK_FULL_BYTES) return fail(name, message, remedy, { code: 'disk_full' })
  return free < DISK_LOW_BYTES ? warn(name, message, remedy, { code: 'disk_low' }) : ok(name, message)
}
