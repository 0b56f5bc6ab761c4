import { computed, signal } from '@preact/signals'

const hash = signal(location.hash)
addEventListener('hashchange', () => { hash.value = location.hash })

/** The page, path parts and query of a URL fragment such as `#/models/acme%2Fchat?tab=logs`. */
export const route = computed(() => {
  const [path = '', query = ''] = hash.value.replace(/^#\/?/, '').split('?')
  const parts = path.split('/').filter((part) => part !== '').map(readPart)
  return { page: parts[0] ?? 'cluster', parts: parts.slice(1), query: new URLSearchParams(query) }
})

function readPart (part: string): string { try { return decodeURIComponent(part) } catch { return part } }

export function linkTo (page: string, ...parts: string[]): string {
  return `#/${[page, ...parts.map(encodeURIComponent)].join('/')}`
}
