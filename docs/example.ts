import { stringify } from 'yaml'
import type { JsonSchema } from '../kernel/api/schema.js'
import { gatherKnown } from '../kernel/config/config-schemas.js'
import { isTree } from '../kernel/config/paths.js'
import { describe, show } from '../kernel/config/values.js'
import type { ConfigOwner } from '../kernel/api/plugin.js'

const width = 100

const header = `# svc.yaml: the settings of a node. Every setting is optional.
#
# Found by --config FILE, the variable SVC_CONFIG, or as svc.yaml in the home folder (~/.svc).
# Lines that start with "#" and a letter are settings with their defaults: take the "#" away to
# change one, and take it away from the sections above it too. Each can also be given by a variable:
# api.port by SVC_API_PORT. A flag counts more than a variable, a variable more than this file.
# A secret is best kept out of this file: write \${env.NAME} and set the variable NAME.
# "svc config check" checks the file; "svc config get --origin" shows what applies and why.
`

const modules = `  # A plugin of your own: its path relative to this file, or the name of its package.
  # my-plugin:
  #   module: ./my-plugin/index.js
`

/**
 * Writes svc.yaml.example from all schemas: every key commented out, with default, meaning, type and range.
 */
export function exampleYaml (owners: readonly ConfigOwner[]): string {
  const { pieces } = gatherKnown(owners)
  const tops = pieces.filter(({ path }) => path[0] !== 'plugins')
  const plugins = pieces.filter(({ path }) => path[0] === 'plugins')
  const parts = tops.map(({ path, schema }) => '\n' + setting(path[0] ?? '', schema, ''))
  parts.push('\n# The plugins: each can be disabled, and has its own settings.\n#plugins:\n' + modules)
  parts.push(...plugins.map(({ path, schema }) => '\n' + setting(path[1] ?? '', schema, '  ')))
  return header + parts.join('')
}

function setting (key: string, schema: JsonSchema, indent: string): string {
  const properties = schema['properties']
  if (!isTree(properties)) return prose(meaning(schema), indent) + line(key, schema, indent)
  const inner = Object.entries(properties).filter(([, value]) => isTree(value))
  const about = text(schema['description'])
  return (about === '' ? '' : prose(about, indent)) + `${indent}#${key}:\n` +
    inner.map(([name, value]) => setting(name, value as JsonSchema, indent + '  ')).join('')
}

/** The commented-out line of a key; a key without a default shows an example or a placeholder. */
function line (key: string, schema: JsonSchema, indent: string): string {
  const examples = schema['examples']
  const value = 'default' in schema ? schema['default'] : Array.isArray(examples) ? examples[0] : undefined
  if (value === undefined) return `${indent}# ${key}: (${describe(schema)})\n`
  const written = stringify(value, { lineWidth: 0, collectionStyle: 'flow' }).trimEnd()
  return `${indent}#${stringify(key).trimEnd()}: ${written}\n`
}

function meaning (schema: JsonSchema): string {
  const parts = [text(schema['description']), `${capital(describe(schema))}${fallback(schema)}.`]
  if (schema['x-local'] === true) parts.push('Only here, never over HTTP.')
  if (schema['x-secret'] === true) parts.push('A secret: write ${env.NAME}.')
  return parts.filter((part) => part !== '').join(' ')
}

function fallback (schema: JsonSchema): string {
  if (!('default' in schema)) return '; not set by default'
  const value = schema['default']
  if (Array.isArray(value) && value.length > 0) return `; default ${value.map(show).join(', ')}`
  return isTree(value) && Object.keys(value).length === 0 ? '; default no keys' : `; default ${show(value)}`
}

function text (value: unknown): string { return typeof value === 'string' ? value : '' }

function capital (words: string): string { return words.slice(0, 1).toUpperCase() + words.slice(1) }

/** Wraps text into comment lines at word boundaries. */
function prose (words: string, indent: string): string {
  const lines: string[] = []
  let current = ''
  for (const word of words.split(/\s+/)) {
    if (current !== '' && indent.length + 2 + current.length + 1 + word.length > width) {
      lines.push(current)
      current = ''
    }
    current += (current === '' ? '' : ' ') + word
  }
  return [...lines, current].map((one) => `${indent}# ${one}\n`).join('')
}
