import { spawn } from 'node:child_process'
import { delimiter, join } from 'node:path'
import { existsSync } from 'node:fs'
import { PassThrough } from 'node:stream'

/** Sampling rate of recorders, in Hz. */
export const RECORDED_HZ = 16_000

/** Programs that write 16-bit little-endian mono samples to stdout, in order of preference. */
const RECORDERS: readonly (readonly [command: string, ...args: string[]])[] = [
  ['parecord', '--raw', '--format=s16le', '--channels=1', `--rate=${RECORDED_HZ}`, '--latency-msec=50'],
  ['arecord', '-q', '-t', 'raw', '-f', 'S16_LE', '-c', '1', '-r', String(RECORDED_HZ)],
  ['rec', '-q', '-t', 'raw', '-e', 'signed', '-b', '16', '-L', '-c', '1', '-r', String(RECORDED_HZ), '-']
]

export interface Recorder {
  bytes: AsyncIterable<Uint8Array>
  /** Why it ended, in its own words; undefined while it runs and after `stop`. */
  problem (): string | undefined
  stop (): void
}

/** Starts the first recorder that is installed in the PATH of `env`; undefined if there is none. */
export function startRecorder (env: NodeJS.ProcessEnv): Recorder | undefined {
  const folders = (env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '')
  const found = RECORDERS.find(([command]) => folders.some((folder) => existsSync(join(folder, command))))
  if (found === undefined) return undefined
  const [command, ...args] = found
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  // Node discards output of an ended process unless it is being read.
  const sound = child.stdout.pipe(new PassThrough())
  let said = ''
  child.stderr.on('data', (part) => { said = (said + String(part)).slice(0, 2000) })
  const ended = new Promise<number | null>((resolve) => {
    child.on('error', (error) => { said = error.message; resolve(1) })
    child.on('close', resolve)
  })
  let problem: string | undefined
  let stopped = false
  return {
    bytes: (async function * () {
      yield * sound as AsyncIterable<Uint8Array>
      if (await ended === 0 || stopped) return
      problem = `${command}: ${said.trim() || 'it ended'}`
      throw new Error(problem)
    })(),
    problem: () => problem,
    stop () {
      stopped = true
      child.kill()
    }
  }
}
