// The pages in the order of the menu. The first is part of what loads first; each other loads when opened.
import { lazy } from 'preact/compat'
import { ClusterPage } from './cluster/page.js'
import type { ComponentType } from 'preact'

export interface Page { title: string, component: ComponentType }

export const pages: Record<string, Page> = {
  cluster: { title: 'Cluster', component: ClusterPage },
  models: { title: 'Models', component: lazy(async () => (await import('./models/page.js')).ModelsPage) },
  playground: {
    title: 'Playground', component: lazy(async () => (await import('./playground/page.js')).PlaygroundPage)
  },
  discovery: {
    title: 'Discovery', component: lazy(async () => (await import('./discovery/page.js')).DiscoveryPage)
  },
  happened: {
    title: 'What happened', component: lazy(async () => (await import('./happened/page.js')).HappenedPage)
  },
  settings: {
    title: 'Settings', component: lazy(async () => (await import('./settings/page.js')).SettingsPage)
  },
  first: { title: 'First steps', component: lazy(async () => (await import('./first/page.js')).FirstPage) }
}
