/** What a chat template does, asked before the model is loaded. */
import { namedTokens } from './files.js'
import type { TextFiles } from './files.js'
import { ChatTemplate, findTemplates } from './template.js'

/** What has a template, as it is read from the model's files. */
export type TemplateFiles = Pick<TextFiles, 'template' | 'tokenizerConfig'>

/** What a template was found to do. */
export interface TemplateFacts {
  /** Why none of the plainest conversations can be rendered; null where one can. */
  problem: string | null
  /**
   * What becomes of tools: `shown`, with calls of a known format; `unknown_format`, shown too, but calls
   * would not be found; `not_shown`; `fails`, it cannot be rendered with them.
   */
  tools: 'shown' | 'unknown_format' | 'not_shown' | 'fails'
}

const USER = { role: 'user', content: 'Hello' }
/** Some templates want a system message. */
const CONVERSATIONS = [[USER], [{ role: 'system', content: 'Be brief.' }, USER]]

/**
 * What the template in these files does, found by rendering it; null where there is none. One made to be
 * slow takes a good second for each rendering, as template.ts bounds it.
 */
export function templateFacts ({ template, tokenizerConfig }: TemplateFiles): TemplateFacts | null {
  const templates = findTemplates({ template, tokenizerConfig })
  if (templates.size === 0) return null
  const chat = new ChatTemplate(templates, namedTokens({ tokenizerConfig }))
  const problem = problemOf(chat)
  // What fails on every conversation is not tried with more of them.
  return { problem, tools: problem === null ? toolsOf(chat) : 'fails' }
}

function problemOf (chat: ChatTemplate): string | null {
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

function toolsOf ({ tools: { way, format, problem } }: ChatTemplate): TemplateFacts['tools'] {
  if (way === null) return problem === null ? 'not_shown' : 'fails'
  return format === null ? 'unknown_format' : 'shown'
}
