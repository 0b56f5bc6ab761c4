import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ModelSpec } from '../../../kernel/api/engine.js'
import { fieldsOf, textOf } from '../../runners/language/json.js'

/** The chat template beside a model counts before that in its file. */
export const TEMPLATE_FILE = 'chat_template.jinja'

/** The chat template that an instance was placed with, else that beside its model; an empty text for none. */
export async function templateOf ({ options, directory, card: { files } }: ModelSpec): Promise<string> {
  const given = textOf(fieldsOf(options['chatTemplate'])['source'])
  if (given !== '' || !files.some(({ path }) => path === TEMPLATE_FILE)) return given
  return await readFile(join(directory, TEMPLATE_FILE), 'utf8')
}
