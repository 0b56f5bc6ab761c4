import { randomUUID } from 'node:crypto'
import { open, unlink, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'

/** An unlinked file, which the system deletes when it is closed. */
export interface Spooled { file: FileHandle, size: number }

/** Writes the input to a file in `folder`. Throws the error of `tooLarge` above `maxBytes`. */
export async function spool (
  input: AsyncIterable<Uint8Array>, folder: string, maxBytes: number, tooLarge: () => Error
): Promise<Spooled> {
  const path = join(folder, `${randomUUID()}.sound`)
  const file = await open(path, 'wx+', 0o600)
  let size = 0
  try {
    await unlink(path)
    for await (const piece of input) {
      size += piece.byteLength
      if (size > maxBytes) throw tooLarge()
      await file.writeFile(piece)
    }
    return { file, size }
  } catch (error) {
    await file.close()
    throw error
  }
}
