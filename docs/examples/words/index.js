// @ts-check
import { definePlugin } from 'svc/plugin'

const howMany = /** @type {const} */ ({ type: 'integer', minimum: 0 })
const words = /** @type {const} */ ({
  type: 'object', additionalProperties: false, required: ['words'], properties: { words: howMany }
})

export default definePlugin({
  name: 'words',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Counts the words of texts.',
  config: {
    type: 'object',
    additionalProperties: false,
    properties: {
      most: { type: 'integer', minimum: 1, default: 1000, description: 'Most words a text may have.' }
    }
  },
  capabilities: {
    count: {
      id: 'words',
      version: '1.0.0',
      title: 'Count words',
      description: 'Says how many words a text has.',
      io_mode: 'unary',
      input_schema: {
        type: 'object',
        additionalProperties: false,
        required: ['text'],
        properties: { text: { type: 'string', minLength: 1, maxLength: 100000 } }
      },
      output_schema: words,
      annotations: { stability: 'experimental' }
    }
  },
  routes: {
    total: {
      method: 'GET',
      url: '/v1/words',
      summary: 'How many words were counted so far.',
      authority: 'read',
      reply: words
    }
  },
  errors: {
    too_many_words: {
      status: 400,
      retryable: false,
      message: 'The text has too many words.',
      remedy: 'Send a shorter text, or raise plugins.words.most in svc.yaml and restart.'
    }
  },
  events: {
    WordsCounted: {
      plane: 'telemetry',
      summary: 'A text was counted.',
      payload: words
    }
  },
  sections: {
    wordCounts: { writer: 'node', summary: 'Words counted by each node since it started.', value: howMany }
  },
  state: { wordCounts: 'Words counted by node id.' },
  tools: {
    word_counts: {
      summary: 'How many words each node has counted since it started.',
      args: {
        type: 'object',
        additionalProperties: false,
        properties: { node: { type: 'string', minLength: 1, maxLength: 100, description: 'Name of one.' } }
      },
      load: () => import('./tools/word-counts.js')
    }
  }
}, (ctx) => {
  const { most } = ctx.config
  const { wordCounts } = ctx.sections
  let counted = 0
  return {
    invoke: {
      count: async ({ text }) => {
        const words = text.split(/\s+/).filter((word) => word !== '').length
        if (words > most) {
          const message = `The text has ${words} words; at most ${most} are taken.`
          throw ctx.error('too_many_words', message, { words, most })
        }
        counted += words
        wordCounts.put('total', counted)
        ctx.emit('WordsCounted', { words })
        return { words }
      }
    },
    routes: { total: () => ({ words: counted }) },
    state: {
      wordCounts: () => {
        const counts = [...wordCounts.entries()].map(({ nodeId, value }) => [nodeId, value])
        return Object.fromEntries(counts)
      }
    }
  }
})
