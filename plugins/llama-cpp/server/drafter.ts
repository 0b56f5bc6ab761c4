/**
 * Detects a drafter's draft method. llama.cpp detects some methods itself and needs an option for others.
 */
import { open } from 'node:fs/promises'

/** Number of bytes to read; in all known files they include the tensor names, after the vocabulary. */
const HEAD_BYTES = 48 * 2 ** 20
/** Number of bytes at the file's start in which the architecture's metadata entry must be. */
const FIRST_BYTES = 4096

/** `way` is the draft method to pass as an option; null if llama.cpp detects it. */
export interface Drafter { path: string, way: string | null }

export async function drafterAt (path: string): Promise<Drafter> {
  const file = await open(path)
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0)
    return { path, way: draftMethodOf(buffer.subarray(0, bytesRead)) }
  } finally {
    await file.close()
  }
}

/** The draft method according to the first bytes of a file. Pure. */
export function draftMethodOf (head: Buffer): string | null {
  const architecture = head.toString('latin1', 0, FIRST_BYTES)
  if (architecture.includes('eagle3')) return 'draft-eagle3'
  // llama.cpp itself detects DFlash drafters and multi-token prediction heads.
  if (architecture.includes('dflash') || head.includes('.nextn.eh_proj.')) return null
  return 'draft-simple'
}
