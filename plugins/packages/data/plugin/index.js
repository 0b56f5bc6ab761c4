import { definePlugin } from 'svc/plugin'

// The manifest is data: svc derives the types of start(), the checks, the docs and the listing from it.
export default definePlugin({
  name: 'demo',
  version: '0.1.0',
  kernel: '^1.0.0',
  summary: 'Gives a text back word by word.',
  config: {
    type: 'object',
    additionalProperties: false,
    properties: {
      shout: { type: 'boolean', default: false, description: 'Answers in capital letters.' }
    }
  },
  capabilities: {
    echo: {
      id: 'demo',
      version: '1.0.0',
      title: 'Echo',
      description: 'Gives a text back, one chunk per word.',
      io_mode: 'server_streaming',
      input_schema: {
        type: 'object',
        additionalProperties: false,
        required: ['text'],
        properties: { text: { type: 'string', minLength: 1, maxLength: 10000 } }
      },
      output_chunk_schema: {
        type: 'object',
        additionalProperties: false,
        required: ['word', 'index'],
        properties: { word: { type: 'string' }, index: { type: 'integer', minimum: 0 } }
      },
      annotations: { stability: 'experimental' }
    }
  }
}, (ctx) => ({
  invoke: {
    // The schemas give the types of input and chunks. call.signal aborts when the caller disconnects.
    async * echo ({ text }, call) {
      for (const [index, word] of text.trim().split(/\s+/).entries()) {
        if (call.signal.aborted) return
        yield { payload: { word: ctx.config.shout ? word.toUpperCase() : word, index } }
      }
    }
  }
}))
