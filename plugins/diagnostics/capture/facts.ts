import { readFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import os from 'node:os'
import type { ProcessFacts } from '../report.js'

/** Process limits that often explain failures. */
const LIMITS = ['Max open files', 'Max processes', 'Max address space', 'Max locked memory']

/** Basic facts about the machine for `svc doctor` and bug reports. Sizes in bytes. */
export async function machineFacts (home: string, process: ProcessFacts): Promise<Record<string, unknown>> {
  const disk = await statfs(home).catch(() => null)
  const cpus = os.cpus()
  return {
    platform: os.platform(),
    architecture: os.arch(),
    system: `${os.type()} ${os.release()}`,
    distribution: fieldOf(textOf('/etc/os-release'), /^PRETTY_NAME="?([^"\n]+)/m),
    processors: cpus.length,
    processor: cpus[0]?.model ?? null,
    loadAverage: os.loadavg(),
    machineUptimeSeconds: os.uptime(),
    memoryTotalBytes: os.totalmem(),
    memoryFreeBytes: os.freemem(),
    memoryLimitOfControlGroup: textOf('/sys/fs/cgroup/memory.max')?.trim() ?? null,
    homeDiskTotalBytes: disk === null ? null : disk.blocks * disk.bsize,
    homeDiskFreeBytes: disk === null ? null : disk.bavail * disk.bsize,
    timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    process: { ...process, hostname: undefined },
    limits: limitsOf(textOf('/proc/self/limits') ?? '')
  }
}

export function limitsOf (text: string): Record<string, string> {
  return Object.fromEntries(LIMITS.flatMap((name) => {
    const soft = fieldOf(text, new RegExp(`^${name}\\s+(\\S+)`, 'm'))
    return soft === null ? [] : [[name, soft]]
  }))
}

const fieldOf = (text: string | null, pattern: RegExp): string | null => pattern.exec(text ?? '')?.[1] ?? null

function textOf (path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}
