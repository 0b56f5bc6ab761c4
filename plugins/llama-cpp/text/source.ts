import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ModelSpec } from '../../../kernel/api/engine.js'
import { fieldsOf, textOf } from '../../runners/language/json.js'

/** File beside the model whose chat template overrides the model's own. */
export const TEMPLATE_FILE = 'chat_template.jinja'

/** The chat template from the placement, or else from the file beside the model; '' if both are missing. */
export async function templateOf ({ options, directory, card: { files } }: ModelSpec): Promise<string> {
  const given = textOf(fieldsOf(options['chatTemplate'])['source'])
  if (given !== '' || !files.some(({ path }) => path === TEMPLATE_FILE)) return given
  return await readFile(join(directory, TEMPLATE_FILE), 'utf8')
}
