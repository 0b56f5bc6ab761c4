/** Sound in MP4, WebM, Ogg and FLAC files (FFmpeg in WebAssembly). */
import type { FileHandle } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Frame, LibAVWrapper, Packet } from '@libav.js/variant-fat'
import { readAt, undecodable, type Sound } from './sound.js'

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
