/** The child process that runs the jobs of jobs.ts. */
import { Worker } from 'node:worker_threads'
import { printable } from '../config/paths.js'
import type { JobMessage, JobReply } from './jobs.js'

const MESSAGE_CHARS = 2_000

process.on('SIGUSR1', () => {})
process.on('disconnect', () => { process.exit() })

/**
 * Watchdog thread, since a job may block the main thread. Ends the process if its parent, the node, is gone
 * or if its resident memory, heap or not, exceeds the limit.
 */
const WATCH = `const { workerData: { parent, bytes } } = require('node:worker_threads')
setInterval(() => {
  if (process.ppid !== parent || process.memoryUsage.rss() > bytes) process.kill(process.pid, 'SIGKILL')
}, 200)`
new Worker(WATCH, {
  eval: true, execArgv: [], workerData: { parent: process.ppid, bytes: Number(process.argv[2]) * 2 ** 20 },
  resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2, stackSizeMb: 1 }
}).unref()

process.on('message', (message: JobMessage) => { void run(message) })

function tell (reply: JobReply): void { process.send?.(reply) }

async function run ({ module, name, args, resultBytes }: JobMessage): Promise<void> {
  try {
    const { [name]: job } = await import(module) as Record<string, (...args: readonly unknown[]) => unknown>
    tell({ kind: 'begins' })
    const json = JSON.stringify(await job!(...args)) ?? 'null'
    const bytes = Buffer.byteLength(json)
    tell(bytes > resultBytes ? { kind: 'too_large', bytes } : { kind: 'result', json })
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    const lines = text.slice(0, MESSAGE_CHARS).split('\n').map((line) => line.trim())
    tell({ kind: 'failed', message: printable(lines.join(' ')) })
  }
}
