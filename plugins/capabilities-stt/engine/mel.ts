/**
 * Whisper's log-mel spectrogram as an ONNX graph: 25 ms Hann windows every 10 ms, 80 or 128 Slaney bands to
 * 8 kHz. Formula: https://github.com/openai/whisper/blob/main/whisper/audio.py
 */
import {
  ATTRIBUTE, ELEMENT, encodeMessage, encodeModel, nodeOf, tensorInfo
} from '../../runners/onnx/engine.js'

export const RATE = 16_000
/** Samples of a frame; the encoder makes one position of two frames. */
export const HOP = 160
const WINDOW = 400
const BINS = WINDOW / 2 + 1

/** Samples before and after those of the frames: half a window, and what its last frame lacks. */
export const BEFORE = WINDOW / 2
export const AFTER = WINDOW / 2 - HOP

/** Slaney's mel scale: linear below 1 kHz, logarithmic above. */
const MEL_HERTZ = 200 / 3
const LOG_FROM = 1000 / MEL_HERTZ
const LOG_STEP = Math.log(6.4) / 27
const melOf = (hertz: number): number =>
  hertz < 1000 ? hertz / MEL_HERTZ : LOG_FROM + Math.log(hertz / 1000) / LOG_STEP
const hertzOf = (mel: number): number =>
  mel < LOG_FROM ? mel * MEL_HERTZ : 1000 * Math.exp(LOG_STEP * (mel - LOG_FROM))

/** Triangular filters of equal area, [bands, 2 x bins]: the same for the real and the imaginary parts. */
export function melFilters (bands: number): Float32Array {
  const top = melOf(RATE / 2)
  const edges = Array.from({ length: bands + 2 }, (_, i) => hertzOf(top * i / (bands + 1)))
  return Float32Array.from({ length: bands * 2 * BINS }, (_, at) => {
    const band = Math.floor(at / (2 * BINS))
    const hertz = at % BINS * RATE / WINDOW
    const [low, middle, high] = edges.slice(band, band + 3) as [number, number, number]
    const height = Math.min((hertz - low) / (middle - low), (high - hertz) / (high - middle))
    return Math.max(0, height) * 2 / (high - low)
  })
}

/** Cosines, then sines of the bins under a Hann window, [2 x bins, 1, window]. */
const waves = (): Float32Array => Float32Array.from({ length: 2 * BINS * WINDOW }, (_, at) => {
  const [row, i] = [Math.floor(at / WINDOW), at % WINDOW]
  const angle = 2 * Math.PI * (row % BINS) * i / WINDOW
  const hann = 0.5 - 0.5 * Math.cos(2 * Math.PI * i / WINDOW)
  return hann * (row < BINS ? Math.cos(angle) : Math.sin(angle))
})

function floatTensor (name: string, values: Float32Array, dims: number[]): Uint8Array {
  const rawData = new Uint8Array(values.buffer, values.byteOffset, values.byteLength)
  return encodeMessage('TensorProto', { dims, dataType: ELEMENT.float32, name, rawData })
}

/** A graph from `samples` [1, 1, BEFORE + frames x HOP + AFTER] to `mel` [1, bands, frames]. */
export function melGraph (bands: number): Uint8Array {
  const constants = { tiny: 1e-10, tenth: 1 / Math.LN10, range: 8, four: 4, quarter: 0.25 }
  const strides = encodeMessage('AttributeProto', { name: 'strides', ints: [HOP], type: ATTRIBUTE.ints })
  return encodeModel({
    irVersion: 8, producerName: 'svc', metadataProps: [],
    opsetImport: [encodeMessage('OperatorSetIdProto', { domain: '', version: 17 })],
    graph: {
      name: 'mel',
      node: [
        { ...nodeOf('Conv', ['samples', 'waves'], 'parts'), attribute: [strides] },
        nodeOf('Mul', ['parts', 'parts'], 'squares'),
        nodeOf('MatMul', ['filters', 'squares'], 'energy'),
        nodeOf('Max', ['energy', 'tiny'], 'positive'),
        nodeOf('Log', ['positive'], 'natural'),
        nodeOf('Mul', ['natural', 'tenth'], 'decimal'),
        nodeOf('ReduceMax', ['decimal'], 'loudest'),
        nodeOf('Sub', ['loudest', 'range'], 'floor'),
        nodeOf('Max', ['decimal', 'floor'], 'above'),
        nodeOf('Add', ['above', 'four'], 'shifted'),
        nodeOf('Mul', ['shifted', 'quarter'], 'mel')
      ],
      initializer: [
        floatTensor('waves', waves(), [2 * BINS, 1, WINDOW]),
        floatTensor('filters', melFilters(bands), [bands, 2 * BINS]),
        ...Object.entries(constants).map(([name, value]) => floatTensor(name, Float32Array.of(value), [1]))
      ],
      input: [tensorInfo('samples', ELEMENT.float32)],
      output: [tensorInfo('mel', ELEMENT.float32)],
      valueInfo: []
    }
  })
}

/**
 * The samples as `melGraph` takes them: the sound is mirrored at its start, and followed by silence up to
 * `frames` frames.
 */
export function padded (samples: Float32Array, frames: number): Float32Array {
  const all = new Float32Array(BEFORE + frames * HOP + AFTER)
  all.set(samples.subarray(0, all.length - BEFORE), BEFORE)
  for (let i = 1; i <= BEFORE; i++) all[BEFORE - i] = all[BEFORE + i]!
  return all
}
