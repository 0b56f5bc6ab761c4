/** How a drafter is used: llama.cpp finds out some kinds by itself, and others only where they are named. */
import { open } from 'node:fs/promises'

/** Beyond the vocabulary, where the names of tensors are, in every file that was seen. */
const HEAD_BYTES = 48 * 2 ** 20
/** What is said within the first entries. */
const FIRST_BYTES = 4096

/** A drafter: its file, and how it drafts; null where llama.cpp is left to find that out. */
export interface Drafter { path: string, way: string | null }

/** Looks at the head of a drafter's file. */
export async function drafterAt (path: string): Promise<Drafter> {
  const file = await open(path)
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0)
    return { path, way: draftMethodOf(buffer.subarray(0, bytesRead)) }
  } finally {
    await file.close()
  }
}

/** How a drafter with that head drafts. Pure. */
export function draftMethodOf (head: Buffer): string | null {
  const architecture = head.toString('latin1', 0, FIRST_BYTES)
  if (architecture.includes('eagle3')) return 'draft-eagle3'
  // Heads that guess several tokens belong to the model itself.
  if (architecture.includes('dflash') || head.includes('.nextn.eh_proj.')) return null
  return 'draft-simple'
}
