/** CPU time and memory of processes on Linux; null on other systems. */
import { readFileSync } from 'node:fs'

// /proc counts CPU time in ticks of USER_HZ, which Linux fixes at 100 per second.
const TICK_MS = 10

/** CPU time that a process has used so far in ms, in user and kernel mode. */
export function cpuMs (pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS
  } catch {
    return null
  }
}

/** Resident memory of a process in MB; null if it cannot be read. */
export function residentMb (pid) {
  try {
    return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1.024e-3
  } catch {
    return null
  }
}
