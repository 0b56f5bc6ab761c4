import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ModelSpec } from '../../../kernel/api/engine.js'
import { fieldsOf, textOf } from '../../runners/language/json.js'

/** The chat template beside a model; undefined for none. */
export function templateFile (files: readonly { path: string, role: string }[]): string | undefined {
  const templates = files.filter(({ path, role }) => role === 'template' && /\.jinja2?$/.test(path))
    .map(({ path }) => path)
  return templates.find((path) => path === 'chat_template.jinja') ??
    (templates.length === 1 ? templates[0] : undefined)
}

/** The chat template that an instance was placed with, else that beside its model; an empty text for none. */
export async function templateOf ({ options, directory, card: { files } }: ModelSpec): Promise<string> {
  const given = textOf(fieldsOf(options['chatTemplate'])['source'])
  const beside = templateFile(files)
  return given !== '' || beside === undefined ? given : await readFile(join(directory, beside), 'utf8')
}
