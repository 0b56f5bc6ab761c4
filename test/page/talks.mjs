// A third-party plugin with capabilities that answer each chunk with a chunk; the page has no code for them.
import { definePlugin } from 'svc/plugin'

const sound = {
  type: 'object', additionalProperties: false, required: ['base64'],
  properties: { base64: { type: 'string' } }
}
const text = {
  type: 'object', additionalProperties: false, required: ['text'], properties: { text: { type: 'string' } }
}

export default definePlugin({
  name: 'talks',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Says back what it is told.',
  capabilities: {
    talk: {
      id: 'talk', version: '1.0.0', title: 'Talk', description: 'Says back what it is told.',
      io_mode: 'bidirectional',
      input_schema: {
        type: 'object', additionalProperties: false, required: ['prefix'],
        properties: {
          prefix: { type: 'string', minLength: 2 }, loud: { type: ['boolean', 'null'] }, any: true
        }
      },
      output_schema: null, input_chunk_schema: text, output_chunk_schema: text, annotations: {}
    },
    sing: {
      id: 'sing', version: '1.0.0', title: 'Sing', description: 'Gives back the MP3 that it is given.',
      io_mode: 'bidirectional',
      input_schema: { type: 'object', additionalProperties: false, properties: {} },
      output_schema: null, input_chunk_schema: sound, output_chunk_schema: text, annotations: {}
    }
  }
}, () => ({
  invoke: {
    async * talk ({ prefix }, call) {
      for await (const { text } of call.input) yield { payload: { text: `${prefix} ${text}` } }
    },
    async * sing (_, call) {
      for await (const { base64 } of call.input) {
        const media = {
          bytes: Buffer.from(base64, 'base64'), mediaType: 'audio/mpeg', codec: 'mp3', sampleRate: 16_000,
          channels: 1, timestampSeconds: 0, durationSeconds: 0
        }
        yield { payload: { text: 'la' }, media }
      }
    }
  }
}))
