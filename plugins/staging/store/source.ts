import { fileURLToPath } from 'node:url'
import { StoreError } from './errors.js'

/** Where a model is to come from. */
export type Source =
  | { kind: 'hub' }
  | { kind: 'file', path: string }
  | { kind: 'node', installId: string }

const INSTALL_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/

/**
 * Reads a source as users write it: `hub`, `file:///absolute/folder`, `node:<installId>`. Throws
 * StoreError `bad_source`. Pure.
 */
export function parseSource (text: string): Source {
  if (text === 'hub') return { kind: 'hub' }
  if (text.startsWith('node:') && INSTALL_ID.test(text.slice(5))) {
    return { kind: 'node', installId: text.slice(5) }
  }
  const path = text.startsWith('file:///') ? pathOf(text) : undefined
  if (path !== undefined) return { kind: 'file', path }
  throw new StoreError('bad_source', `${JSON.stringify(text.slice(0, 200))} is no source of models; ` +
    'give hub, file:///absolute/folder or node:<install id>')
}

/** The path of a file URL; undefined when it is none (bad escapes, a NUL, an escaped slash). */
function pathOf (url: string): string | undefined {
  try {
    const path = fileURLToPath(url)
    return path.includes('\0') ? undefined : path
  } catch {
    return undefined
  }
}
