/** Whether a chat template works, asked before the model is loaded. */
import { isObject } from '../json.js'
import type { TextFiles } from './files.js'
import { ChatTemplate, findTemplates } from './template.js'

/** What has a template, as it is read from the model's files. */
export type TemplateFiles = Pick<TextFiles, 'template' | 'tokenizerConfig'>

const USER = { role: 'user', content: 'Hello' }
/** Some templates want a system message. */
const CONVERSATIONS = [[USER], [{ role: 'system', content: 'Be brief.' }, USER]]

/**
 * Why none of the plainest conversations can be rendered; null where one can, or where there is no template.
 * A template made to be slow takes a good second for each, as template.ts bounds it.
 */
export function templateProblem ({ template, tokenizerConfig }: TemplateFiles): string | null {
  const templates = findTemplates({ template, tokenizerConfig })
  if (templates.size === 0) return null
  const tokens = Object.entries(tokenizerConfig).flatMap(([name, value]) => {
    const text = isObject(value) ? value['content'] : value
    return name.endsWith('_token') && typeof text === 'string' ? [[name, text]] : []
  })
  const chat = new ChatTemplate(templates, Object.fromEntries(tokens))
  let problem: string | null = null
  for (const messages of CONVERSATIONS) {
    try {
      chat.render(messages, { addGenerationPrompt: true })
      return null
    } catch (error) {
      problem ??= (error as Error).message
    }
  }
  return problem
}
