// The pages in the order of the menu. The first is part of what loads first; each other loads when opened.
import { lazy } from 'preact/compat'
import { ClusterPage } from './cluster/page.js'
import type { ComponentType } from 'preact'

export interface Page { title: string, component: ComponentType }

const later = {
  models: async () => (await import('./models/page.js')).ModelsPage,
  playground: async () => (await import('./playground/page.js')).PlaygroundPage,
  discovery: async () => (await import('./discovery/page.js')).DiscoveryPage,
  happened: async () => (await import('./happened/page.js')).HappenedPage,
  settings: async () => (await import('./settings/page.js')).SettingsPage,
  first: async () => (await import('./first/page.js')).FirstPage
}

export const pages: Record<string, Page> = {
  cluster: { title: 'Cluster', component: ClusterPage },
  models: { title: 'Models', component: lazy(later.models) },
  playground: { title: 'Playground', component: lazy(later.playground) },
  discovery: { title: 'Discovery', component: lazy(later.discovery) },
  happened: { title: 'What happened', component: lazy(later.happened) },
  settings: { title: 'Settings', component: lazy(later.settings) },
  first: { title: 'First steps', component: lazy(later.first) }
}

export async function loadAll (): Promise<void> {
  // One after the other, behind whatever the shown page asks for; what fails is asked for again when opened.
  for (const load of Object.values(later)) await load().catch(() => {})
}
