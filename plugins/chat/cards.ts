/** For the job that makes cards: what of a model's files this plugin evaluates. Not for a node's main thread. */
export { layoutOf } from './engine/layout.js'
export type { Layout } from './engine/layout.js'
export { templateFacts } from './text/template-check.js'
export type { TemplateFacts } from './text/template-check.js'
