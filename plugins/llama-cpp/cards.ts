/** For the job that makes cards. It evaluates files of models, so it must not run in a node's main thread. */
import { ChatTemplate } from './text/template.js'

/** Whether a chat template can be rendered with tools, and does not show them. */
export function hidesTools (template: string): boolean {
  const names = { bos_token: '<s>', eos_token: '</s>' }
  const { tools: { way, problem } } = new ChatTemplate(new Map([['default', template]]), names)
  return way === null && problem === null
}
export { TEMPLATE_FILE } from './text/source.js'
