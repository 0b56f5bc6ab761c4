/** WAV with samples of all widths and companding (Mediabunny, in JavaScript). */
import type { FileHandle } from 'node:fs/promises'
import { AudioSampleSink, CustomSource, Input, WAVE } from 'mediabunny'
import { readAt, undecodable, type Sound } from './sound.js'

/** Size of the read cache in bytes. */
const CACHE = 1024 ** 2

export const isWav = (head: Buffer): boolean => /^(RIFF|RF64)....WAVE/s.test(head.toString('latin1'))

export async function * decodeWav (file: FileHandle, size: number): AsyncGenerator<Sound> {
  const read = async (start: number, end: number): Promise<Buffer> => await readAt(file, start, end - start)
  const source = new CustomSource({ getSize: () => size, read, maxCacheSize: CACHE })
  const input = new Input({ formats: [WAVE], source })
  try {
    const track = await input.getPrimaryAudioTrack()
    if (track === null || !await track.canDecode()) throw undecodable('This type of WAV is not supported.')
    for await (const sample of new AudioSampleSink(track).samples()) {
      const { numberOfChannels, sampleRate: rate, numberOfFrames } = sample
      const channels = Array.from({ length: numberOfChannels }, (_, planeIndex) => {
        const samples = new Float32Array(numberOfFrames)
        sample.copyTo(samples, { planeIndex, format: 'f32-planar' })
        return samples
      })
      sample.close()
      yield { channels, rate }
    }
  } finally {
    input.dispose()
  }
}
