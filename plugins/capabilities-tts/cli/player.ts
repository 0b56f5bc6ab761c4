import { spawn } from 'node:child_process'
import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { plain, realPace } from '../../../kernel/cli/index.js'
import { orElse } from '../../../kernel/api/schema.js'
import type { Writable } from 'node:stream'

/** An MP3 player that reads stdin, or a file whose path is its last argument. */
export interface Player { command: string, args: readonly string[], reads: 'stdin' | 'file' }

/** Supported players, in order of preference. */
export const players: readonly Player[] = [
  { command: 'ffplay', args: ['-nodisp', '-autoexit', '-loglevel', 'error', '-i', '-'], reads: 'stdin' },
  { command: 'mpv', args: ['--no-video', '--really-quiet', '-'], reads: 'stdin' },
  { command: 'mpg123', args: ['-q', '-'], reads: 'stdin' },
  { command: 'afplay', args: [], reads: 'file' }
]

/** The first supported player that is installed in `path` (a PATH value), or undefined. */
export function findPlayer (path: string): Player | undefined {
  const folders = path.split(delimiter).filter((folder) => folder !== '')
  return players.find(({ command }) => folders.some((folder) => isProgram(join(folder, command))))
}

function isProgram (file: string): boolean {
  return orElse(false, () => {
    accessSync(file, constants.X_OK)
    return true
  })
}

/** Milliseconds a player may take beyond the length of the sound, for start-up and buffers. */
const GRACE_MS = 3000

export interface Playing {
  /**
   * `seconds`: length of all sound so far. @throws Error if playing fails; its message is empty if there is
   * no sound device
   */
  write (bytes: Uint8Array, seconds: number): Promise<void>
  /** Resolves when all sound has been played. Throws like `write`. */
  end (all: Uint8Array): Promise<void>
  stop (): void
}

/** Starts a player. A player that reads stdin plays while sound arrives; others start at the end. */
export function play (player: Player, env: NodeJS.ProcessEnv, graceMs = GRACE_MS): Playing {
  const began = realPace.mono()
  let length = 0
  let running = player.reads === 'stdin' ? start(player.command, player.args, env) : undefined
  // A player that takes much longer than its sound probably has no sound device.
  const inTime = async (over: Promise<unknown>): Promise<void> => {
    const limitMs = Math.max(0, began + length * 1000 + graceMs - realPace.mono())
    if (!await Promise.race([over.then(() => true), sleep(limitMs, false, { ref: false })])) {
      running?.stop()
      throw new Error('')
    }
  }
  return {
    async write (bytes, seconds) {
      length = seconds
      if (running?.stdin.writable !== true || running.stdin.write(bytes)) return
      const { stdin, over } = running
      await inTime(Promise.race([once(stdin, 'drain').catch(() => over), over]))
    },
    async end (all) {
      running?.stdin.end()
      if (running !== undefined) return await inTime(running.over)
      const folder = mkdtempSync(join(tmpdir(), 'svc-say-'))
      try {
        const file = join(folder, 'speech.mp3')
        writeFileSync(file, all)
        length += (realPace.mono() - began) / 1000
        running = start(player.command, [...player.args, file], env)
        await inTime(running.over)
      } finally { rmSync(folder, { recursive: true, force: true }) }
    },
    stop: () => { running?.stop() }
  }
}

/** Runs the player in its own process group, so that `stop` kills its children too. Errors include stderr. */
function start (command: string, args: readonly string[], env: NodeJS.ProcessEnv): {
  stdin: Writable, over: Promise<void>, stop: () => void
} {
  const child = spawn(command, args, { env, stdio: ['pipe', 'ignore', 'pipe'], detached: true })
  let said = ''
  child.stderr.on('data', (part) => { said = (said + String(part)).slice(0, 2000) })
  // A player that exits early breaks the pipe; its exit status decides whether that is a failure.
  child.stdin.on('error', () => {})
  const over = new Promise<void>((resolve, reject) => {
    child.on('error', (error) => { reject(new Error(`cannot run ${command}: ${error.message}`)) })
    child.on('exit', (status) => {
      const line = plain(said.trim().split('\n').at(-1)!)
      const more = line === '' ? '' : `: ${line}`
      if (status === 0) resolve()
      else reject(new Error(`${command} exited with status ${String(status)}${more}`))
    })
  })
  over.catch(() => {})
  const stop = (): void => {
    try { if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL') } catch { /* It has exited. */ }
  }
  return { stdin: child.stdin, over, stop }
}
