import {
  closeSync, fsyncSync, openSync, realpathSync, renameSync, statSync, unlinkSync, writeFileSync
} from 'node:fs'
import { basename, dirname, join } from 'node:path'

/**
 * Writes svc.yaml so that a crash leaves either the old or the new text. A link stays a link, the
 * permissions stay as they are; a new file can be read and written by its owner only.
 */
export function saveConfigFile (path: string, text: string): void {
  const { target, mode } = existing(path)
  const temporary = join(dirname(target), `.${basename(target)}.${process.pid}.tmp`)
  try {
    const handle = openSync(temporary, 'wx', mode)
    try {
      writeFileSync(handle, text)
      fsyncSync(handle)
    } finally {
      closeSync(handle)
    }
    renameSync(temporary, target)
  } catch (error) {
    try { unlinkSync(temporary) } catch { /* it was never made */ }
    throw error
  }
}

function existing (path: string): { target: string, mode: number } {
  try {
    const target = realpathSync(path)
    return { target, mode: statSync(target).mode & 0o777 }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { target: path, mode: 0o600 }
    throw error
  }
}
