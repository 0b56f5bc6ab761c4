/** For the job that makes cards. It evaluates files of models, so it must not run in a node's main thread. */
export { layoutOf } from './engine/layout.js'
export type { Layout } from './engine/layout.js'
export { templateFacts } from './text/template-check.js'
export type { TemplateFacts } from './text/template-check.js'
