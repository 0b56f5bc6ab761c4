import { spawn } from 'node:child_process'
import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'

/** A program that plays MP3: from its stdin, or a file put after its arguments. */
export interface Player { command: string, args: readonly string[], reads: 'stdin' | 'file' }

/** Players in the order in which they are tried; all of them play MP3. */
export const players: readonly Player[] = [
  { command: 'ffplay', args: ['-nodisp', '-autoexit', '-loglevel', 'error', '-i', '-'], reads: 'stdin' },
  { command: 'mpv', args: ['--no-video', '--really-quiet', '-'], reads: 'stdin' },
  { command: 'mpg123', args: ['-q', '-'], reads: 'stdin' },
  { command: 'afplay', args: [], reads: 'file' }
]

/** The first player whose program is found on `path` (a PATH), or undefined. */
export function findPlayer (path: string): Player | undefined {
  const folders = path.split(delimiter).filter((folder) => folder !== '')
  return players.find(({ command }) => folders.some((folder) => isProgram(join(folder, command))))
}

function isProgram (file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Plays what is written to it. `end` resolves when all was played; it rejects when the player failed. */
export interface Playing { write (bytes: Uint8Array): Promise<void>, end (): Promise<void>, stop (): void }

/** Starts a player. Sound that arrives in pieces is heard at once where the player reads its stdin. */
export function play (player: Player, env: NodeJS.ProcessEnv): Playing {
  return player.reads === 'stdin' ? playPipe(player, env) : playFile(player, env)
}

function playPipe ({ command, args }: Player, env: NodeJS.ProcessEnv): Playing {
  const child = spawn(command, args, { env, stdio: ['pipe', 'ignore', 'inherit'] })
  const over = finished(child, command)
  // A player that is closed early ends the pipe; its exit status says whether that was a failure.
  child.stdin.on('error', () => {})
  return {
    async write (bytes) {
      if (!child.stdin.writable || child.stdin.write(bytes)) return
      await Promise.race([once(child.stdin, 'drain'), over]).catch(() => {})
    },
    async end () {
      child.stdin.end()
      await over
    },
    stop: () => { child.kill() }
  }
}

function playFile ({ command, args }: Player, env: NodeJS.ProcessEnv): Playing {
  const parts: Uint8Array[] = []
  return {
    async write (bytes) { parts.push(bytes) },
    async end () {
      const folder = mkdtempSync(join(tmpdir(), 'svc-say-'))
      try {
        const file = join(folder, 'speech.mp3')
        writeFileSync(file, Buffer.concat(parts))
        const child = spawn(command, [...args, file], { env, stdio: ['ignore', 'ignore', 'inherit'] })
        await finished(child, command)
      } finally {
        rmSync(folder, { recursive: true, force: true })
      }
    },
    stop: () => {}
  }
}

function finished (child: ReturnType<typeof spawn>, command: string): Promise<void> {
  const over = new Promise<void>((resolve, reject) => {
    child.on('error', (error) => { reject(new Error(`cannot run ${command}: ${error.message}`)) })
    child.on('exit', (status) => {
      if (status === 0) resolve()
      else reject(new Error(`${command} ended with status ${String(status)}`))
    })
  })
  over.catch(() => {})
  return over
}
