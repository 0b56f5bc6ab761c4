/** Names a service; the type travels with the value, no global augmentation. */
export interface ServiceRef<T> { readonly id: string, readonly type?: T }

export function defineService<T> (id: string): ServiceRef<T> { return { id } }
