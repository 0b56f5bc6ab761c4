import type { FileHandle } from 'node:fs/promises'
import { EngineError } from '../../../../kernel/api/engine.js'

/** A decoded piece: one array of samples from -1 to 1 per channel, and samples per second. */
export interface Sound { channels: readonly Float32Array[], rate: number }

export const undecodable = (message: string): EngineError => new EngineError('audio_undecodable', message)

/** Fewer bytes than `length` at the end of the file. */
export async function readAt (file: FileHandle, at: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, at)
  return buffer.subarray(0, bytesRead)
}
