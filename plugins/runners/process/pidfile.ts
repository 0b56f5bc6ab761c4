import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseJson, writeWhole } from '../../../kernel/index.js'
import { attempt, bootId, environmentOf, processGroup, processIds, read, startTime } from './proc.js'

export const PIDFILE = 'runner.pid'
/** Environment variable that marks a runner and its descendants. */
export const MARK = 'SVC_RUNNER_MARK'
const FORMAT = 1

/** Identifies a process within one boot of one machine; `mark` also identifies its descendants. */
interface PidRecord { format: number, pid: number, startTime: string, bootId: string, mark: string }

/** Writes the pidfile of a new process; does nothing on a system without process start times. */
export function writePidfile (scratch: string, pid: number, mark: string): void {
  const started = startTime(pid)
  const boot = bootId()
  if (started === null || boot === null) return
  const record: PidRecord = { format: FORMAT, pid, startTime: started, bootId: boot, mark }
  writeWhole(join(scratch, PIDFILE), JSON.stringify(record))
}

export function removePidfile (scratch: string): void { rmSync(join(scratch, PIDFILE), { force: true }) }

/** The record in a pidfile; null if it is missing or invalid. */
export function readPidfile (scratch: string): PidRecord | null {
  const value = (parseJson(read(join(scratch, PIDFILE)) ?? '') ?? {}) as Partial<PidRecord>
  const texts = [value.startTime, value.bootId, value.mark]
  const valid = value.format === FORMAT && Number.isSafeInteger(value.pid) && (value.pid ?? 0) > 1 &&
    texts.every((text) => typeof text === 'string')
  return valid ? value as PidRecord : null
}

/**
 * Kills runners that an earlier node left: for each pidfile in `dir` and its direct subfolders, the process
 * whose pid, start time and boot all match, and the members of its group that carry its mark. Returns the
 * killed pids and removes the pidfiles.
 */
export function sweepOrphans (dir: string): number[] {
  const killed: number[] = []
  for (const folder of [dir, ...subfolders(dir)]) {
    const record = readPidfile(folder)
    if (record !== null && record.bootId === bootId()) killed.push(...killMatches(record))
    removePidfile(folder)
  }
  return killed
}

const subfolders = (dir: string): string[] => attempt(() => readdirSync(dir, { withFileTypes: true }), [])
  .filter((entry) => entry.isDirectory()).map((entry) => join(dir, entry.name))

function killMatches (record: PidRecord): number[] {
  const leader = startTime(record.pid) === record.startTime ? [record.pid] : []
  const mark = `${MARK}=${record.mark}`
  const members = processIds().filter((pid) =>
    pid !== record.pid && processGroup(pid) === record.pid && environmentOf(pid).includes(mark))
  return [...leader, ...members].filter(killOne)
}

const killOne = (pid: number): boolean => attempt(() => process.kill(pid, 'SIGKILL'), false)
