/** Engine `onnx-stt` on onnxruntime, in a runner process: Whisper's public ONNX exports. */
import { tmpdir } from 'node:os'
import {
  EngineError, type EngineModule, type EngineSession, type EngineTask, type ModelSpec
} from '../../../kernel/api/engine.js'
import { decodeFile, decodePcm } from './decode/index.js'
import { Listener, type LiveEvent } from './live.js'
import { RATE } from './mel.js'
import { loadWhisper, type Whisper } from './model.js'
import { readRequest } from './request.js'
import { Writer } from './text.js'
import { windowsOf, type Window } from './windows.js'
import type { SttEvent } from '../service.js'

/** Longest recording in seconds. */
const MOST_SECONDS = 4 * 3600
const NEVER = new AbortController().signal
/** Seconds of a monotonic clock. */
const now = (): number => performance.now() / 1000

/** The segments of a recording, several windows at once. */
async function * transcribe (
  model: Whisper, writer: Writer, blocks: AsyncIterable<Float32Array>
): AsyncGenerator<LiveEvent> {
  let batch: Window[] = []
  const write = async (): Promise<LiveEvent[]> => {
    const windows = batch.length === 0 ? [] : await writer.write(batch)
    batch = []
    return windows.flat().map((segment) => ({ event: 'segment', segment }))
  }
  for await (const window of windowsOf(model, blocks)) {
    batch.push(window)
    if (batch.length === model.rows) yield * await write()
  }
  yield * await write()
}

function openWhisper (model: Whisper, { card }: ModelSpec): EngineSession {
  let live = 0

  async function * events (
    { kind, payload, input }: EngineTask, signal: AbortSignal
  ): AsyncGenerator<SttEvent> {
    if (kind !== 'stt') throw new EngineError('invalid_payload', `engine onnx-stt serves stt, not ${kind}`)
    if (input === undefined) throw new EngineError('invalid_payload', 'the task brings no sound')
    const request = readRequest(payload, model.vocabulary, card)
    const writer = new Writer(model, request, Math.random, signal)
    const sound = request.format === 'pcm'
      ? decodePcm(input, request.sampleRate)
      : decodeFile(input, { maxSeconds: MOST_SECONDS, folder: tmpdir() }, signal)
    let [samples, id, isTold] = [0, 0, false]
    const blocks = (async function * () {
      for await (const block of sound) {
        if (signal.aborted) return
        samples += block.length
        yield block
      }
    })()
    const all = request.live
      ? new Listener(model, writer, request, { isAlone: () => live === 1, now }).listen(blocks)
      : transcribe(model, writer, blocks)
    if (request.live) live++
    try {
      for await (const event of all) {
        if (signal.aborted) return
        if (writer.language !== undefined && !isTold) yield { event: 'language', language: writer.language }
        isTold = writer.language !== undefined
        if (event.event !== 'segment') yield event
        else {
          const { segment, final } = event
          yield { event: 'segment', id: id++, ...segment, ...final === true ? { final } : {} }
        }
      }
    } finally {
      if (request.live) live--
    }
    if (!signal.aborted) yield { event: 'done', language: writer.language ?? '', duration: samples / RATE }
  }

  return {
    /** Writes down a tone. */
    async warmup () {
      const writer = new Writer(model, readRequest({}, model.vocabulary, card), Math.random, NEVER)
      const samples = Float32Array.from({ length: RATE }, (_, i) => 0.1 * Math.sin(i / 10))
      try {
        await writer.write([{ samples, start: 0 }], true)
      } catch (error) {
        if (error instanceof EngineError) throw error
        throw new EngineError('model_invalid', `${card.modelId} cannot run; its files do not match: ` +
          (error as Error).message.slice(0, 300))
      }
    },

    async * run (task, signal) {
      for await (const event of events(task, signal)) yield { payload: { ...event } }
    },

    info: () => ({
      family: card.family, languages: [...model.vocabulary.languages.keys()], rows: model.rows
    }),

    close: model.close
  }
}

const engine: EngineModule = { load: async (spec, env) => openWhisper(await loadWhisper(spec, env), spec) }

export default engine
