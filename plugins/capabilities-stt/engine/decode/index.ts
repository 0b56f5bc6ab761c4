/** Any sound as mono blocks at 16 kHz, with bounds on its length, channels and rate. */
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { EngineError } from '../../../../kernel/api/engine.js'
import { Resampler } from '../../../runners/onnx/resample.js'
import { readAt, undecodable, type Sound } from './sound.js'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { MPEGDecoder } from 'mpg123-decoder'
import { AudioSampleSink, CustomSource, Input, WAVE } from 'mediabunny'
import { createRequire } from 'node:module'
import type { Frame, LibAVWrapper, Packet } from '@libav.js/variant-fat'

/** Samples per second of all blocks. */
const RATE = 16_000
const CHANNELS = 8
/** 3 hours of WAV in stereo at 48 kHz. */
const MAX_BYTES = 2 * 1024 ** 3
const ID3_HEADER = 10
/** Bounds in Hz on the rate of a recording; below, one packet could become hours of blocks. */
const RATES = [4_000, 192_000] as const

export interface DecodeLimits {
  /** Maximum duration of the sound after decoding. */
  maxSeconds: number
  /** Maximum size of the file, which lies in `folder` while it is decoded. Default: MAX_BYTES. */
  maxBytes?: number
  folder: string
}

/**
 * Decodes a sound file, whose type follows from its content, to blocks of at most one second. The file is
 * read to its end first, since an index may be there. A damaged file gives what comes before the damage.
 * Throws EngineError `audio_undecodable`, `audio_too_long` or `audio_unsupported`.
 */
export async function * decodeFile (
  input: AsyncIterable<Uint8Array>, { maxSeconds, maxBytes = MAX_BYTES, folder }: DecodeLimits,
  signal: AbortSignal
): AsyncGenerator<Float32Array> {
  const { file, size } = await spool(input, folder, maxBytes, () =>
    new EngineError('audio_too_long', `The file is larger than ${maxBytes} bytes.`))
  try {
    const sounds = untilDamage(await openSounds(file, size))
    for await (const block of toBlocks(sounds, maxSeconds, true)) {
      signal.throwIfAborted()
      yield block
    }
  } finally {
    await file.close()
  }
}

/** Chooses the decoder by the first bytes, after an ID3v2 tag if the file has one. */
async function openSounds (file: FileHandle, size: number): Promise<AsyncIterable<Sound>> {
  const tag = await readAt(file, 0, ID3_HEADER)
  // The tag's size has 7 bits per byte.
  const start = tag.toString('latin1', 0, 3) === 'ID3'
    ? tag.subarray(6).reduce((sum, byte) => sum * 128 + (byte & 127), 0) + ID3_HEADER
    : 0
  const head = await readAt(file, start, 12)
  if (isWav(head)) return decodeWav(file, size)
  // Only FLAC and MP3 have such tags; mpg123 skips padding after them.
  const tagged = start > 0 && !head.toString('latin1').startsWith('fLaC')
  return tagged || isMp3(head) ? decodeMp3(file, start) : decodeContainer(file, start, size)
}

/** Ends at the first error of a decoder. Throws `audio_undecodable` if there is nothing before it. */
async function * untilDamage (sounds: AsyncIterable<Sound>): AsyncGenerator<Sound> {
  let any = false
  try {
    for await (const sound of sounds) {
      any ||= sound.channels.some(({ length }) => length > 0)
      yield sound
    }
  } catch (error) {
    if (error instanceof EngineError) throw error
  }
  if (!any) throw undecodable('The file has no sound that can be decoded.')
}

/**
 * 16-bit little-endian mono samples at `rate` Hz as blocks, each as soon as its input is there. Throws
 * EngineError `audio_too_long`.
 */
export async function * decodePcm (
  input: AsyncIterable<Uint8Array>, rate: number, maxSeconds = Infinity
): AsyncGenerator<Float32Array> {
  yield * toBlocks(readPcm(input, rate), maxSeconds, false)
}

async function * readPcm (input: AsyncIterable<Uint8Array>, rate: number): AsyncGenerator<Sound> {
  let odd = Buffer.alloc(0)
  for await (const piece of input) {
    const bytes = Buffer.concat([odd, piece])
    const samples = new Float32Array(bytes.length >> 1)
    for (let i = 0; i < samples.length; i++) samples[i] = bytes.readInt16LE(2 * i) / 32_768
    odd = bytes.subarray(2 * samples.length)
    yield { channels: [samples], rate }
  }
}

/** Blocks of at most one second; if `whole`, only the last one is shorter. */
async function * toBlocks (
  sounds: AsyncIterable<Sound>, maxSeconds: number, whole: boolean
): AsyncGenerator<Float32Array> {
  const block = new Float32Array(RATE)
  let filled = 0
  let total = 0
  for await (const piece of resampled(sounds)) {
    total += piece.length
    if (total > maxSeconds * RATE) {
      throw new EngineError('audio_too_long', `The sound is longer than ${maxSeconds} seconds.`)
    }
    for (let at = 0; at < piece.length;) {
      const part = piece.subarray(at, at + RATE - filled)
      block.set(part, filled)
      at += part.length
      filled += part.length
      if (whole && filled < RATE) continue
      yield block.slice(0, filled)
      filled = 0
    }
  }
  if (filled > 0) yield block.slice(0, filled)
}

/** Mono at 16 kHz. The rate can change within a recording. */
async function * resampled (sounds: AsyncIterable<Sound>): AsyncGenerator<Float32Array> {
  let rate = RATE
  let resampler: Resampler | undefined
  for await (const sound of sounds) {
    checkSound(sound)
    if (sound.rate !== rate) {
      if (resampler !== undefined) yield resampler.finish()
      rate = sound.rate
      resampler = rate === RATE ? undefined : new Resampler(rate, RATE)
    }
    const mono = toMono(sound.channels)
    yield resampler?.push(mono) ?? mono
  }
  if (resampler !== undefined) yield resampler.finish()
}

function checkSound ({ channels, rate }: Sound): void {
  if (channels.length > CHANNELS) {
    throw new EngineError('audio_unsupported',
      `The sound has ${channels.length} channels; at most ${CHANNELS} are supported.`)
  }
  if (rate < RATES[0] || rate > RATES[1]) {
    throw new EngineError('audio_unsupported',
      `The sound has ${rate} samples per second; ${RATES[0]} to ${RATES[1]} are supported.`)
  }
}

/** The mean of the channels. Samples that are no numbers, which float files can hold, become silence. */
function toMono (channels: readonly Float32Array[]): Float32Array {
  const mono = new Float32Array(channels[0]?.length ?? 0)
  for (let i = 0; i < mono.length; i++) {
    let sum = 0
    for (const channel of channels) sum += channel[i]!
    const mean = sum / channels.length
    mono[i] = mean >= -1 && mean <= 1 ? mean : Math.max(-1, Math.min(1, mean || 0))
  }
  return mono
}

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

/** Bytes decoded at once: at most half a minute of sound at the lowest bit rate. */
const PIECE = 16 * 1024

/** A sync word of 11 bits; layer 0 is AAC. */
const isMp3 = ([first = 0, second = 0]: Buffer): boolean =>
  first === 0xff && second >= 0xe0 && (second & 6) !== 0

/** MP3, by mpg123 in WebAssembly: the build of FFmpeg that decodes the other types has no MP3. */
async function * decodeMp3 (file: FileHandle, start: number): AsyncGenerator<Sound> {
  const decoder = new MPEGDecoder()
  try {
    await decoder.ready
    for (let at = start; ; at += PIECE) {
      const bytes = await readAt(file, at, PIECE)
      if (bytes.length === 0) return
      const { channelData: channels, sampleRate: rate, samplesDecoded } = decoder.decode(bytes)
      if (samplesDecoded > 0) yield { channels, rate }
    }
  } finally {
    decoder.free()
  }
}

/** Size of the read cache in bytes. */
const CACHE = 1024 ** 2

const isWav = (head: Buffer): boolean => /^(RIFF|RF64)....WAVE/s.test(head.toString('latin1'))

/** WAV with samples of all widths and companding, by Mediabunny in JavaScript. */
async function * decodeWav (file: FileHandle, size: number): AsyncGenerator<Sound> {
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

// Required, since the package's types do not declare what its CommonJS module exports.
const factory: LibAVWrapper = createRequire(import.meta.url)('@libav.js/variant-fat')

/** The file's name within FFmpeg. */
const NAME = 'sound'
/** Bytes of packets that are read at once. */
const READ = 16 * 1024
/** FFmpeg's constants: the media type, and the log level without any output. */
const AUDIO = 1
const QUIET = -8

/** The first sound track of a file that begins at `start`. Throws EngineError `audio_undecodable`. */
export async function * decodeContainer (
  file: FileHandle, start: number, size: number
): AsyncGenerator<Sound> {
  const lib = await factory.LibAV({ noworker: true })
  lib.av_log_set_level_sync(QUIET)
  lib.onblockread = (name, at, length) => {
    void readAt(file, start + at, length).then(
      (bytes) => { lib.ff_block_reader_dev_send_sync(name, at, bytes) },
      (error: unknown) => { lib.ff_block_reader_dev_send_sync(name, at, null, { error }) })
  }
  lib.mkblockreaderdev_sync(NAME, size - start)
  const [context, streams] = await lib.ff_init_demuxer_file(NAME).catch(() => {
    throw undecodable('The file is not of a supported type.')
  })
  const track = streams.find(({ codec_type: type }) => type === AUDIO)
  if (track === undefined) throw undecodable('The file has no sound track.')
  const [, codec, packet, frame] = await lib.ff_init_decoder(track.codec_id, track.codecpar).catch(() => {
    throw undecodable(`Sound of type ${lib.avcodec_get_name_sync(track.codec_id)} is not supported.`)
  })
  const decode = (packets: Packet[], fin = false): Frame[] => {
    try { return lib.ff_decode_multi_sync(codec, packet, frame, packets, { fin }) } catch { return [] }
  }
  for (let ended = false; !ended;) {
    const [result, found] = await lib.ff_read_multi(context, packet, NAME, { limit: READ })
    ended = result !== -lib.EAGAIN
    // One at a time, since a few bytes can hold a second of silence.
    for (const part of found[track.index] ?? []) yield * decode([part]).map(toSound)
    if (ended) yield * decode([], true).map(toSound)
  }
}

/** Copies integer or float samples, in one array per channel or interleaved. */
function toSound ({ data, nb_samples: length = 0, sample_rate: rate = 0 }: Frame): Sound {
  const planes: readonly Samples[] = Array.isArray(data) ? data : [data]
  const channels = planes.flatMap((samples) => {
    if (samples instanceof Float32Array && samples.length === length) return [samples]
    const step = Math.max(1, Math.floor(samples.length / length))
    const zero = samples instanceof Uint8Array ? 128 : 0
    const scale = samples instanceof Float32Array ? 1 : 2 ** (1 - 8 * samples.BYTES_PER_ELEMENT)
    return Array.from({ length: step }, (_, first) => {
      const channel = new Float32Array(length)
      for (let i = 0; i < length; i++) channel[i] = (samples[i * step + first]! - zero) * scale
      return channel
    })
  })
  return { channels, rate }
}

type Samples = Uint8Array | Int16Array | Int32Array | Float32Array
