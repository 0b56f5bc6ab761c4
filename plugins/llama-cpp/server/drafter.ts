/**
 * Detects the draft method of a drafter: llama.cpp detects some itself and needs an option for the others.
 */
import { open } from 'node:fs/promises'

/** Long enough to include the tensor names behind the vocabulary in all known files. */
const HEAD_BYTES = 48 * 2 ** 20
/** Includes the metadata entry with the architecture. */
const FIRST_BYTES = 4096

/** `way` is the draft method; null if llama.cpp detects it. */
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

/** The draft method by the head of a file. Pure. */
export function draftMethodOf (head: Buffer): string | null {
  const architecture = head.toString('latin1', 0, FIRST_BYTES)
  if (architecture.includes('eagle3')) return 'draft-eagle3'
  // llama.cpp detects multi-token prediction heads.
  if (architecture.includes('dflash') || head.includes('.nextn.eh_proj.')) return null
  return 'draft-simple'
}
