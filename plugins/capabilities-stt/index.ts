import { join } from 'node:path'
import { definePlugin, kernelError } from '../../kernel/index.js'
import { Admission, InvocationService } from '../capabilities/service.js'
import { RunnersService, runTask } from '../runners/service.js'
import { ModelsService } from '../staging/service.js'
import { config, errors, routes, stt } from './declarations.js'
import { ListeningService } from './service.js'
import { transcriptionHandler } from './transcribe.js'
import type { CapabilityCall, CapabilityChunk, ClientChunk } from '../../kernel/index.js'
import type { Listening, SttEvent, SttPayload } from './service.js'

/** Matches OpenAI's names of models for speech to text, including dated releases. */
const NAMES = /^(whisper-1|gpt-4o(-mini)?-transcribe(-\d{4}-\d{2}-\d{2})?)$/

/** Limits on forms: those read or waiting for a model, and those that wait to be read. */
const UPLOADS = { concurrency: 40, queue: 80 }

export default definePlugin({
  name: 'capabilities-stt',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Writes down speech with placed Whisper models: recordings, and sound while it is spoken.',
  requires: ['capabilities', 'runners'],
  consumes: { runners: RunnersService, invocations: InvocationService },
  consumesOptional: { models: ModelsService },
  provides: { listening: ListeningService },
  config, errors, routes,
  capabilities: { stt },
  engines: {
    'onnx-stt': {
      summary: 'Whisper in the public ONNX layouts, on onnxruntime.',
      module: new URL('./engine/index.js', import.meta.url).href,
      cards: new URL('./card-reader.js', import.meta.url).href,
      backends: ['cpu', 'cuda'],
      fixedBytes: 256 * 2 ** 20
    }
  },
  verbs: {
    listen: {
      heading: 'Use models',
      summary: 'Write down a recording, or what is said into the microphone',
      args: '[file]',
      options: [
        ['-o, --output <file>', 'write the text here'],
        ['--format <format>', 'text, srt, vtt, json or verbose_json'],
        ['--model <id>', 'model to listen with'],
        ['--language <code>', 'language of the speech, such as en; detected when absent'],
        ['--translate', 'write English, whatever the language']
      ],
      examples: ['svc listen meeting.m4a --format srt -o meeting.srt', 'svc listen'],
      load: () => import('./cli/listen.js')
    }
  }
}, (ctx) => {
  const { runners, invocations, models } = ctx.deps
  const { openai_names: openai, max_upload_mib: mib } = ctx.config
  const aliases = ctx.config.model_aliases as Record<string, string>
  const listening: Listening = {
    models: () => runners.models('stt'),
    modelFor (name) {
      const asked = Object.hasOwn(aliases, name) ? aliases[name]! : name
      if (!openai || !NAMES.test(asked)) return asked
      const known = runners.models('stt')
      if (known.some(({ card }) => card.modelId === asked)) return asked
      if (known[0] !== undefined) return known[0].card.modelId
      throw kernelError('no_instance', 'No model for speech to text is placed.', {
        model: name,
        remedy: 'Run `svc pull onnx-community/whisper-base`, then `svc place onnx-community/whisper-base`.'
      })
    },
    async * transcribe ({ model: modelId, ...payload }, input, call) {
      const whole = { kind: 'stt', payload: { ...payload } }
      const task = typeof input === 'function' ? () => ({ ...whole, input: input() }) : { ...whole, input }
      for await (const chunk of runTask(runners, { modelId, capability: 'stt', task }, call)) {
        // Chunks without an event report the position in the runner's queue.
        if (chunk.payload['event'] !== undefined) yield chunk.payload as unknown as SttEvent
      }
    }
  }
  if (models !== undefined) {
    ctx.effect('names of models', models.names(() => Object.entries(aliases)
      .map(([id, root]) => ({ id, root, madeMs: null }))))
  }
  const folder = join(ctx.node.home, 'tmp')
  const uploads = new Admission('uploads', ctx.clock, UPLOADS)
  const parts = { listening, invocations, clock: ctx.clock, uploads, folder, limit: mib * 2 ** 20 }
  return {
    services: { listening },
    invoke: { stt: (input, call) => listen(listening, input, call) },
    routes: {
      transcriptions: transcriptionHandler(parts, 'transcribe'),
      translations: transcriptionHandler(parts, 'translate')
    }
  }
})

async function * listen (
  listening: Listening, input: Omit<SttPayload, 'format'> & { model: string }, call: CapabilityCall
): AsyncGenerator<CapabilityChunk<SttEvent>> {
  const request = { live: true, ...input, format: 'pcm' as const, model: listening.modelFor(input.model) }
  for await (const payload of listening.transcribe(request, soundOf(call.chunks), call)) yield { payload }
}

async function * soundOf (chunks: AsyncIterable<ClientChunk>): AsyncGenerator<Uint8Array> {
  for await (const { media } of chunks) if (media !== undefined) yield media
}
