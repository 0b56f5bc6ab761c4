import { fieldsOf, textOf, type Fields } from '../../runners/language/json.js'

/** The chat template beside a model, which counts before that in its file; undefined for none. */
export function templateFile (files: readonly { path: string, role: string }[]): string | undefined {
  const templates = files.filter(({ path, role }) => role === 'template' && /\.jinja2?$/.test(path))
    .map(({ path }) => path)
  return templates.find((path) => path === 'chat_template.jinja') ??
    (templates.length === 1 ? templates[0] : undefined)
}

/** The chat template that an instance was placed with; an empty text for none. */
export const givenTemplate = (options: Fields): string => textOf(fieldsOf(options['chatTemplate'])['source'])
