import { DISK_FULL_BYTES, DISK_LOW_BYTES } from '../observe/self-watch.js'
import { showBytes } from './text.js'
import type { ClusterState } from './cluster-state.js'
import type { Fact, ToolContext } from './tool.js'

/** Result of one check: what was found, with numbers, and the remedy. */
export interface Check {
  name: string
  result: 'ok' | 'warn' | 'fail'
  message: string
  /** The command or step that fixes the problem; null if there is nothing to do. */
  remedy: string | null
  /** Machine-readable kind of finding; the check's name in snake_case when absent. */
  code?: string
  /** True: neither a problem nor a confirmation, but worth knowing. */
  note?: boolean
  about?: readonly string[]
  evidence?: Fact['evidence']
}

export type CheckData = Pick<Check, 'code' | 'about' | 'evidence' | 'note'>

export const ok = (name: string, message: string, told: CheckData = {}): Check =>
  ({ name, result: 'ok', message, remedy: null, ...told })
export const warn = (name: string, message: string, remedy: string, told: CheckData = {}): Check =>
  ({ name, result: 'warn', message, remedy, ...told })
export const fail = (name: string, message: string, remedy: string, told: CheckData = {}): Check =>
  ({ name, result: 'fail', message, remedy, ...told })

export function factOf (
  { name, result, message, remedy, code, note, about = [], evidence = [] }: Check
): Fact {
  const text = `${name[0]?.toUpperCase()}${name.slice(1)}: ${message.replace(/\.$/, '')}.`
  return {
    level: note === true ? 'info' : result, code: code ?? name.replace(/\W+/g, '_'), text, about, evidence,
    remedy
  }
}

export interface CheckContext extends Pick<ToolContext, 'look'> { readonly state: ClusterState }

export interface Checker { run (ctx: CheckContext): Promise<Check[]> }

export interface StatusPart { run (ctx: CheckContext): Promise<StatusLines> }

export interface StatusLines {
  json: Record<string, unknown>
  /** Lines to print above and below the table of nodes. */
  above: string[]
  below: string[]
}

const HOME_DISK = {
  name: 'disk', remedy: 'Free disk space, or move the home to another disk (--home).'
} as const

/** Checks a disk for too few free bytes; `name` and `remedy` are those of the check. Pure. */
export function judgeDisk (
  free: number, total: number, { name, remedy }: { name: string, remedy: string } = HOME_DISK
): Check {
  const message = `${showBytes(free)} free of ${showBytes(total)}`
  if (free <= DISK_FULL_BYTES) return fail(name, message, remedy, { code: 'disk_full' })
  return free < DISK_LOW_BYTES ? warn(name, message, remedy, { code: 'disk_low' }) : ok(name, message)
}
