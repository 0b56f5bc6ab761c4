/** For the job that makes cards: evaluates files of models, so no main thread of a node imports it. */
export { layoutOf } from './engine/layout.js'
export type { Layout } from './engine/layout.js'
export { templateFacts } from './text/template-check.js'
export type { TemplateFacts } from './text/template-check.js'
