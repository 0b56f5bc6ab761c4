// @ts-check
/** @import { Caller, EngineChunk, EngineTask } from 'svc/plugin' */
import { definePlugin, defineService } from 'svc/plugin'

/** @typedef {{ modelId: string, capability: string, commandId: string, caller: Caller }} Query */
/** @typedef {{ taskId: string, instanceId: string, runnerId: string, modelId: string }} Route */
/** @typedef {(route: Route, task: EngineTask, signal: AbortSignal) => AsyncIterable<EngineChunk>} Open */

/**
 * What this plugin uses of the service that `runners` provides. A service is known by its id.
 * @type {import('svc/plugin').ServiceRef<{ route: (query: Query) => Promise<Route>, open: Open }>}
 */
const RunnersService = defineService('runners')

export default definePlugin({
  name: 'beep',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Plays a tone, made by an engine of its own in a runner process.',
  requires: ['runners@^1.0.0'],
  consumes: { runners: RunnersService },
  engines: {
    beeper: {
      summary: 'Makes tones.',
      module: new URL('./engine.js', import.meta.url).href,
      backends: ['cpu']
    }
  },
  models: { 'example/beep': { folder: new URL('./model/', import.meta.url).href } },
  capabilities: {
    beep: {
      id: 'beep',
      version: '1.0.0',
      title: 'Beep',
      description: 'Streams a tone as 16-bit samples.',
      io_mode: 'server_streaming',
      media_type: 'audio/pcm',
      input_schema: {
        type: 'object',
        additionalProperties: false,
        required: ['seconds'],
        properties: { seconds: { type: 'number', exclusiveMinimum: 0 } }
      },
      output_chunk_schema: {
        type: 'object',
        additionalProperties: false,
        required: ['chunk_index'],
        properties: { chunk_index: { type: 'integer', minimum: 0 } }
      },
      annotations: { modality: 'audio' }
    }
  }
}, ({ deps: { runners } }) => ({
  invoke: {
    async * beep (input, call) {
      const { commandId, caller, signal } = call
      const route = await runners.route({ modelId: 'example/beep', capability: 'beep', commandId, caller })
      const chunks = runners.open(route, { kind: 'beep', payload: input }, signal)
      for await (const { payload, media, timing } of chunks) {
        yield {
          payload: { chunk_index: Number(payload['chunk_index']) },
          media: {
            bytes: media ?? new Uint8Array(),
            mediaType: 'audio/pcm',
            codec: 'pcm_s16le',
            sampleRate: 16000,
            channels: 1,
            timestampSeconds: timing?.timestampSeconds ?? 0,
            durationSeconds: timing?.durationSeconds ?? 0
          }
        }
      }
    }
  }
}))
