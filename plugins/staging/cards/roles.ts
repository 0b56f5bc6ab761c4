/** Roles of files in a card, told by their names. */

const NAMES: ReadonlyArray<[RegExp, string]> = [
  [/^(licen[cs]e|copying)([._-].*)?$|[._-]licen[cs]e(\.\w+)?$/, 'licence'],
  [/(^|\.)notice(\.\w+)?$/, 'notice'],
  [/\.jinja2?$|^chat_template\.json$/, 'template'],
  [/^(tokenizer.*|special_tokens_map|added_tokens)\.json$|^(tokenizer|spiece)\.model$/, 'tokenizer'],
  [/^(vocab\.(json|txt)|merges\.txt)$/, 'vocab'],
  [/^([a-z_]*config\.json)$/, 'config']
]

/** The role of a file that is not one of those a model is made of: `other` where its name says nothing. */
export function roleOf (path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase()
  return NAMES.find(([pattern]) => pattern.test(name))?.[1] ?? 'other'
}

/** Formats that run code when they are loaded; they are never opened. */
export const PICKLE = /\.(bin|pt|pth|ckpt|pkl|pickle)$/i
