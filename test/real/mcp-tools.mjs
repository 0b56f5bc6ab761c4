// A third-party plugin with the tools that the conformance suite of MCP calls, as capabilities.
import { definePlugin } from 'svc/plugin'

const none = { type: 'object', additionalProperties: false, properties: {} }
const step = { type: 'object', required: ['step'], properties: { step: { type: 'integer' } } }
const PIXEL = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx' +
  '0gAAAABJRU5ErkJggg==', 'base64')
/** MCP includes media up to 1 MiB in the result. */
const LARGE = 1.5 * 2 ** 20
/** svc sends at most one progress notification a second. */
const STEP_MS = 1100

const capability = (id, io_mode, schemas) => ({
  id, version: '1.0.0', title: id, description: `The suite's ${id}.`, io_mode, input_schema: none,
  output_schema: null, ...schemas, annotations: {}
})
const unary = (id, output) => capability(id, 'unary', { output_schema: output })
const stream = (id) => capability(id, 'server_streaming', { output_chunk_schema: step })
const media = (bytes, mediaType, codec) => ({
  payload: { step: 0 },
  media: { bytes, mediaType, codec, sampleRate: 8000, channels: 1, timestampSeconds: 0, durationSeconds: 0 }
})

/** WAV with one channel of silence, 8 kHz, 16 bits. */
function silence (bytes) {
  const header = Buffer.from('RIFF____WAVEfmt ________________________data____')
  header.writeUInt32LE(36 + bytes, 4)
  const fields = [[16, 16, 4], [20, 1, 2], [22, 1, 2], [24, 8000, 4], [28, 16_000, 4], [32, 2, 2],
    [34, 16, 2], [40, bytes, 4]]
  for (const [at, value, size] of fields) header.writeUIntLE(value, at, size)
  return Buffer.concat([header.subarray(0, 44), Buffer.alloc(bytes)])
}

export default definePlugin({
  name: 'mcp-tools',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Has the tools that a test suite calls.',
  capabilities: {
    text: unary('test_simple_text', { type: 'string' }),
    fails: unary('test_error_handling', { type: 'string' }),
    schema: capability('json_schema_2020_12_tool', 'unary', {
      output_schema: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
      input_schema: {
        $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object', additionalProperties: false,
        $defs: {
          address: {
            type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } }
          }
        },
        properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' } }
      }
    }),
    image: stream('test_image_content'),
    audio: stream('test_audio_content'),
    large: stream('test_large_audio'),
    progress: stream('test_tool_with_progress')
  }
}, () => ({
  invoke: {
    text: async () => 'This is a simple text response for testing.',
    fails: async () => { throw new Error('This tool intentionally returns an error for testing') },
    schema: async ({ name = '' }) => ({ name }),
    async * image () { yield media(PIXEL, 'image/png', 'png') },
    async * audio () { yield media(silence(200), 'audio/wav', 'pcm_s16le') },
    async * large () { yield media(silence(LARGE), 'audio/wav', 'pcm_s16le') },
    async * progress () {
      for (const i of [0, 1, 2]) {
        if (i > 0) await new Promise((done) => setTimeout(done, STEP_MS))
        yield { payload: { step: i } }
      }
    }
  }
}))
