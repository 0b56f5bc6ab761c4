// Panels that other plugins add to the page, each a script in its own sandboxed frame.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { FromSchema, Manifest } from '../../kernel/index.js'

/** A panel as GET /panels lists it; `routes`: the plugin's own GET routes, which the panel may request. */
export const panelSchema = {
  type: 'object', additionalProperties: false, required: ['plugin', 'name', 'title', 'routes'],
  properties: {
    plugin: { type: 'string' }, name: { type: 'string' }, title: { type: 'string' },
    routes: { type: 'array', items: { type: 'string' } }
  }
} as const

type Panel = FromSchema<typeof panelSchema>

/** The panels of the enabled plugins, in the order of the plugins. */
export function panelsOf (manifests: readonly Manifest[]): Panel[] {
  return manifests.flatMap((m) => Object.entries(m.panels ?? {}).map(([name, { title }]) => ({
    plugin: m.name, name, title,
    routes: Object.values(m.routes ?? {}).filter(({ method }) => method === 'GET').map(({ url }) => url)
  })))
}

/** The file URL of a panel's script; undefined if there is no such panel. */
export function moduleOf (manifests: readonly Manifest[], plugin: string, name: string): URL | undefined {
  const { panels } = manifests.find((m) => m.name === plugin) ?? {}
  return panels !== undefined && Object.hasOwn(panels, name) ? panels[name]!.module : undefined
}

/**
 * The HTML and CSP of a panel. The script is inline, because a frame without an origin cannot fetch it, and
 * can only exchange messages with the page. Throws if the script cannot be read.
 */
export function panelDocument (module: URL): { html: string, policy: string } {
  // Escapes `</script`, which would end the element; the escaped form means the same in JS literals.
  const script = readFileSync(module, 'utf8').replace(/<\/(script)/gi, '<\\/$1').replace(/<!--/g, '<\\!--')
  const hash = createHash('sha256').update(script).digest('base64')
  const policy = [
    'sandbox allow-scripts', "default-src 'none'", `script-src 'sha256-${hash}'`, 'img-src data: blob:',
    'media-src data: blob:', "base-uri 'none'", "form-action 'none'", "frame-ancestors 'self'"
  ].join('; ')
  const html = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Panel</title></head>' +
    `<body><script type="module">${script}</script></body></html>`
  return { html, policy }
}
