import { once } from 'node:events'
import { createWriteStream, renameSync, rmSync, statSync } from 'node:fs'
import { CliError, exitCodes, usageError } from './errors.js'
import type { Out } from './output.js'

export interface Sink {
  write (bytes: Uint8Array): Promise<void>
  /** Call when the data is complete: gives the file its final name. */
  keep (): Promise<void>
  /** Call if writing fails: removes the partial file. */
  drop (): Promise<void>
}

/**
 * Opens the target of `-o`: a file that gets its name only when complete, or stdout for `-`. Throws CliError
 * (2) for `-` on a terminal, (1) if the file cannot be written.
 */
export function openSink (path: string, out: Out): Sink {
  if (path === '-') {
    if (out.terminal) throw usageError('bytes are never written to a terminal; use -o FILE or a pipe')
    return { write: (bytes) => out.bytes(bytes), keep: async () => {}, drop: async () => {} }
  }
  return fileSink(path)
}

function fileSink (path: string): Sink {
  // Pipes and devices are written directly, since a rename would replace them.
  const plain = statSync(path, { throwIfNoEntry: false })?.isFile() ?? true
  const temporary = plain ? `${path}.${process.pid}.part` : path
  const file = createWriteStream(temporary)
  let failure: Error | undefined
  file.on('error', (error) => { failure = error })
  const check = (): void => {
    if (failure === undefined) return
    throw new CliError(exitCodes.failed, `cannot write ${path}: ${failure.message}`)
  }
  const close = async (): Promise<void> => {
    if (file.closed) return
    const closed = once(file, 'close').catch(() => {})
    file.end()
    await closed
  }
  return {
    async write (bytes) {
      check()
      if (!file.write(bytes)) await Promise.race([once(file, 'drain'), once(file, 'close')]).catch(() => {})
    },
    async keep () {
      await close()
      check()
      if (plain) renameSync(temporary, path)
    },
    async drop () {
      await close()
      if (plain) rmSync(temporary, { force: true })
    }
  }
}
