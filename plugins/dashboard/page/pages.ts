// The pages in the order of the menu. The first is in the initial bundle; the others load when opened.
import { lazy } from 'preact/compat'
import { ClusterPage } from './cluster/page.js'
import type { ComponentType } from 'preact'

interface Page { title: string, component: ComponentType, load?: () => Promise<ComponentType> }

const later = (title: string, load: () => Promise<ComponentType>): Page =>
  ({ title, load, component: lazy(load) })

export const pages: Record<string, Page> = {
  cluster: { title: 'Cluster', component: ClusterPage },
  models: later('Models', async () => (await import('./models/page.js')).ModelsPage),
  playground: later('Playground', async () => (await import('./playground/page.js')).PlaygroundPage),
  discovery: later('Discovery', async () => (await import('./discovery/page.js')).DiscoveryPage),
  happened: later('What happened', async () => (await import('./happened/page.js')).HappenedPage),
  settings: later('Settings', async () => (await import('./settings/page.js')).SettingsPage),
  first: later('First steps', async () => (await import('./first/page.js')).FirstPage)
}

export async function loadAll (): Promise<void> {
  // Load one page after the other, behind the shown page's requests; a failed page loads again when opened.
  for (const { load } of Object.values(pages)) await load?.().catch(() => {})
}
