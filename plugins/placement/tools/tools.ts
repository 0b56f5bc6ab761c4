import type { ToolDecl } from '../../../kernel/index.js'

const word = (description: string) => ({ type: 'string', minLength: 1, maxLength: 200, description }) as const
const args = <const P extends object>(properties: P) =>
  ({ type: 'object', additionalProperties: false, required: Object.keys(properties), properties }) as const
const model = word('A model, such as acme/voice.')

export const tools = {
  running: {
    summary: 'Which models are placed and in which state; which are on disk but not placed.',
    args: args({}),
    load: () => import('./running.js')
  },
  why_model: {
    summary: 'Why a model does not answer: the cause and the fix, or where it answers and since when.',
    args: args({ model }),
    load: () => import('./why-model.js')
  },
  why_request: {
    summary: 'What happened to a request and why it failed: where it ran, how long each step took, ' +
      'related events.',
    args: args({ id: word('Its command or task id, also with a prefix such as msg_.') }),
    load: () => import('./why-request.js')
  },
  fit: {
    summary: 'Whether a model can be placed: on which nodes, the memory calculation, what would make it fit.',
    args: { ...args({ model, without: word('Name of a node to exclude.') }), required: ['model'] },
    load: () => import('./fit.js')
  },
  what_if: {
    summary: 'What would happen if a node died: instances and files lost, quorum, master, store.',
    args: args({ node: word('Name or id of the node.') }),
    load: () => import('./what-if.js')
  }
} as const satisfies Record<string, ToolDecl>
