/** Whether a chat template works, asked before the model is loaded. */
import { namedTokens } from './files.js'
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
  const chat = new ChatTemplate(templates, namedTokens({ tokenizerConfig }))
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
